# Compiles SOURCE with -DREFUSED=NUMBER. It must fail with an error that matches REASON; with number 0
# it must succeed.
execute_process(
  COMMAND ${COMPILER} -std=c++20 -fsyntax-only -I${INCLUDE_DIR} -DREFUSED=${NUMBER} ${SOURCE}
  RESULT_VARIABLE result
  ERROR_VARIABLE messages)
if(NUMBER EQUAL 0)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "does not compile:\n${messages}")
  endif()
elseif(result EQUAL 0)
  message(FATAL_ERROR "compiles, but should be refused with: ${REASON}")
elseif(NOT messages MATCHES "${REASON}")
  message(FATAL_ERROR "is refused without the reason: ${REASON}\n${messages}")
endif()
