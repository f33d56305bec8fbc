// extensor pages: the manual page and the completions of bash, zsh and fish, written from the
// commands and options themselves. The build runs it to install them.
#include <extensor/extensor.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/program.h"
#include "cli/recipe.h"
#include "cli/validators.h"
#include "io/atomic_file.h"
#include "op_database/op_database.h"

namespace extensor::cli {

namespace {

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != std::string::npos;
       at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
  return text;
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  std::vector<const CLI::App*> list;
  for (const CLI::App* command : app.get_subcommands({})) {
    if (!command->get_group().empty()) list.push_back(command);
  }
  return list;
}

std::vector<const CLI::Option*> flags_of(const CLI::App& command) {
  std::vector<const CLI::Option*> list;
  for (const CLI::Option* option : command.get_options()) {
    if (!option->get_lnames().empty()) list.push_back(option);
  }
  return list;
}

bool takes_value(const CLI::Option& option) { return option.get_items_expected_max() > 0; }
bool takes_path(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  return takes_value(option) && (type == "FILE" || type == "DIR" || type == "PATH");
}

// The words that may follow a command without an option, where they are a closed set.
std::vector<std::string> arguments_of(const CLI::App& command) {
  if (command.get_name() == "train") return dataset_names();
  std::vector<std::string> names;
  if (command.get_name() == "gradcheck") {
    for (const op_database::Op& op : op_database::ops()) {
      if (!op.backward.empty()) names.push_back(op.name);
    }
  }
  return names;
}

// ---- bash

std::string bash_completion(const CLI::App& app) {
  std::string text =
      "# Completion of extensor for bash.\n"
      "_extensor() {\n"
      "  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} words=\n"
      "  COMPREPLY=()\n"
      "  if ((COMP_CWORD == 1)); then\n";
  std::vector<std::string> names, paths, values;
  std::string cases;
  for (const CLI::App* command : commands_of(app)) {
    names.push_back(command->get_name());
    std::vector<std::string> words = arguments_of(*command);
    for (const CLI::Option* option : flags_of(*command)) {
      for (const std::string& name : option->get_lnames()) {
        words.push_back("--" + name);
        if (takes_value(*option)) (takes_path(*option) ? paths : values).push_back("--" + name);
      }
    }
    cases += "      " + command->get_name() + ") words='" + joined(words) + "' ;;\n";
  }
  for (const CLI::Option* option : flags_of(app)) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  for (std::vector<std::string>* list : {&paths, &values}) {
    std::ranges::sort(*list);
    list->erase(std::unique(list->begin(), list->end()), list->end());
  }
  return text + "    words='" + joined(names) +
         "'\n  else\n"
         "    case $previous in\n"
         "      " +
         replaced(joined(paths), " ", "|") +
         ") return ;; # a path: readline completes it\n"
         "      " +
         replaced(joined(values), " ", "|") +
         ") compopt +o default; return ;;\n"
         "    esac\n"
         "    case ${COMP_WORDS[1]} in\n" +
         cases +
         "    esac\n"
         "  fi\n"
         "  mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$current\")\n"
         "}\n"
         "complete -o default -F _extensor extensor\n";
}

// ---- zsh

// Text within the single quotes of a specification of _arguments or _describe.
std::string zsh_text(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '\'') {
      result += "'\\''";
    } else {
      if (c == '[' || c == ']' || c == ':' || c == '\\') result += '\\';
      result += c;
    }
  }
  return result;
}

std::string zsh_completion(const CLI::App& app) {
  std::string names, cases;
  for (const CLI::App* command : commands_of(app)) {
    names += "    '" + command->get_name() + ":" + zsh_text(command->get_description()) + "'\n";
    cases += "    " + command->get_name() + ")\n      _arguments";
    for (const CLI::Option* option : flags_of(*command)) {
      for (const std::string& name : option->get_lnames()) {
        cases += " \\\n        '--" + name + "[" + zsh_text(option->get_description()) + "]";
        if (takes_value(*option)) {
          cases += ":" + zsh_text(option->get_type_name()) + ":";
          if (takes_path(*option)) cases += "_files";
        }
        cases += "'";
      }
    }
    const std::vector<std::string> words = arguments_of(*command);
    cases += words.empty() ? " \\\n        '*:file:_files'"
                           : " \\\n        '*:argument:(" + joined(words) + ")'";
    cases += " ;;\n";
  }
  return "#compdef extensor\n"
         "# Completion of extensor for zsh.\n"
         "_extensor() {\n"
         "  local -a commands\n"
         "  commands=(\n" +
         names +
         "  )\n"
         "  if ((CURRENT == 2)); then\n"
         "    _describe command commands\n"
         "    return\n"
         "  fi\n"
         "  local command=$words[2]\n"
         "  shift words\n"
         "  ((CURRENT--))\n"
         "  case $command in\n" +
         cases +
         "  esac\n"
         "}\n"
         "_extensor \"$@\"\n";
}

// ---- fish

std::string fish_text(const std::string& text) {
  return "'" + replaced(replaced(text, "\\", "\\\\"), "'", "\\'") + "'";
}

std::string fish_completion(const CLI::App& app) {
  std::string text = "# Completion of extensor for fish.\n";
  for (const CLI::App* command : commands_of(app)) {
    text += "complete -c extensor -n __fish_use_subcommand -f -a " + command->get_name() + " -d " +
            fish_text(command->get_description()) + "\n";
    const std::string here =
        "complete -c extensor -n '__fish_seen_subcommand_from " + command->get_name() + "'";
    for (const CLI::Option* option : flags_of(*command)) {
      for (const std::string& name : option->get_lnames()) {
        text += here + " -l " + name +
                (takes_path(*option)    ? " -r"
                 : takes_value(*option) ? " -x"
                                        : "") +
                " -d " + fish_text(option->get_description()) + "\n";
      }
    }
    const std::vector<std::string> words = arguments_of(*command);
    if (!words.empty()) text += here + " -f -a '" + joined(words) + "'\n";
  }
  return text;
}

// ---- the manual page

// Text of roff: nothing in it is a request or an escape, and a hyphen is the one that is typed.
std::string roff(const std::string& text) {
  std::string result;
  bool begins = true;
  for (const char c : text) {
    if (begins && (c == '.' || c == '\'')) result += "\\&";
    if (c == '\\') {
      result += "\\e";
    } else {
      if (c == '-') result += '\\';
      result += c;
    }
    begins = c == '\n';
  }
  return result;
}

std::string manual_options(const CLI::App& command) {
  std::string text;
  for (const CLI::Option* option : command.get_options()) {
    std::string names = option->get_name(true, true);  // -h,--help
    std::ranges::replace(names, ',', ' ');
    const std::string type = takes_value(*option) && !option->get_lnames().empty()
                                 ? " \\fI" + roff(option->get_type_name()) + "\\fR"
                                 : "";
    text +=
        ".TP\n\\fB" + roff(names) + "\\fR" + type + "\n" + roff(option->get_description()) + "\n";
  }
  return text;
}

// Help texts name the tool as it was started; the page has its installed name.
std::string verbatim(std::string text) {
  text = replaced(std::move(text), shell_word(program()) + " ", "extensor ");
  return text.empty() ? "" : ".PP\n.nf\n" + roff(text) + "\n.fi\n";
}

std::string manual_page(const CLI::App& app) {
  std::string text = ".TH EXTENSOR 1 \"\" \"extensor " + roff(version()) +
                     "\" \"User Commands\"\n.SH NAME\nextensor \\- train neural networks and "
                     "inspect tensors\n.SH SYNOPSIS\n\\fBextensor\\fR \\fICOMMAND\\fR "
                     "[\\fIARGUMENT\\fR ...]\n.SH DESCRIPTION\n" +
                     roff(app.get_description()) + "\n.SH OPTIONS\n" + manual_options(app) +
                     ".SH COMMANDS\n";
  for (const CLI::App* command : commands_of(app)) {
    text += ".SS extensor " + roff(command->get_name()) + "\n" + roff(command->get_description()) +
            ".\n" + manual_options(*command) + verbatim(command->get_footer());
  }
  return text + ".SH EXAMPLES\n" + verbatim(replaced(app.get_footer(), "Examples:\n", "")) +
         ".SH ENVIRONMENT\n"
         ".TP\n\\fBEXTENSOR_NUM_THREADS\\fR\nThe number of threads; by default one for each "
         "processor.\n"
         ".TP\n\\fBEXTENSOR_CUDA_LIBRARY\\fR\nThe path of libextensor_cuda.so, if it is not beside "
         "the library.\n"
         ".TP\n\\fBEXTENSOR_SIMD\\fR\nThe highest SIMD target that is used: avx512_bf16, avx512, "
         "avx2 "
         "or scalar.\n"
         ".TP\n\\fBEXTENSOR_LOG\\fR\n\\fBops\\fR writes a line for every operation to standard "
         "error, \\fBops:FILE\\fR to a file.\n"
         ".TP\n\\fBEXTENSOR_BACKTRACE\\fR\n1 adds a stack trace to error messages.\n"
         ".SH EXIT STATUS\n0 for success, 1 for an error, 2 for a mistyped command line, and 128 "
         "plus the number of a signal that ended a run.\n";
}

void write(const std::filesystem::path& path, const std::string& text) {
  io::AtomicFile file("pages", path);
  file.write(text);
  file.commit();
}

}  // namespace

void add_pages_command(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("pages", "Write the manual page and the completions of shells");
  command->group("");  // not in the help: only the build needs it
  static std::string directory;
  command->add_option("directory", directory, "where to write them")
      ->required()
      ->type_name("DIR")
      ->check(not_empty());
  command->callback([&app] {
    const std::filesystem::path to = directory;
    std::error_code error;
    std::filesystem::create_directories(to, error);
    if (error) throw IoError("'" + directory + "' cannot be made: " + error.message());
    write(to / "extensor.1", manual_page(app));
    write(to / "extensor.bash", bash_completion(app));
    write(to / "_extensor", zsh_completion(app));
    write(to / "extensor.fish", fish_completion(app));
  });
}

}  // namespace extensor::cli
