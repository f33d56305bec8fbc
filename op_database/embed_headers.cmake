# Writes OUTPUT, a C++ file with the text of every header in HEADERS.

set(_code "#include \"op_database/header_texts.h\"\n\nnamespace extensor::op_database {\n\n")
string(APPEND _code "const std::vector<HeaderText>& header_texts() {\n")
string(APPEND _code "  static const std::vector<HeaderText> texts = {\n")
foreach(header IN LISTS HEADERS)
  cmake_path(GET header FILENAME name)
  file(READ ${header} text)
  string(APPEND _code "{\"${name}\", R\"HEADER(${text})HEADER\"},\n")
endforeach()
string(APPEND _code "  };\n  return texts;\n}\n\n}  // namespace extensor::op_database\n")
file(WRITE ${OUTPUT} "${_code}")
