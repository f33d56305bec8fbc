#include <extensor/extensor.h>

#include <iostream>

#include "cli/commands.h"
#include "cli/output.h"
#include "cli/program.h"
#include "cli/terminal.h"
#include "io/text.h"

namespace extensor::cli {
namespace {

// The chosen command, or the whole tool.
const CLI::App& chosen_command(const CLI::App& app) {
  const std::vector<CLI::App*> chosen = app.get_subcommands();
  return chosen.empty() ? app : *chosen.front();
}

// The subcommands and long options of `command`.
std::vector<std::string> known_words(const CLI::App& command) {
  std::vector<std::string> words;
  for (const CLI::App* one : command.get_subcommands({})) words.push_back(one->get_name());
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) words.push_back("--" + name);
  }
  return words;
}

// Help texts say "extensor"; replace it by the name the tool was started with.
void name_program(CLI::App& command) {
  std::string text = command.get_footer();
  for (const std::string_view before : {"  ", "'"}) {
    const std::string from = std::string(before) + "extensor ";
    const std::string to = std::string(before) + shell_word(program()) + " ";
    for (std::size_t at = text.find(from); at != std::string::npos;
         at = text.find(from, at + to.size())) {
      text.replace(at, from.size(), to);
    }
  }
  command.footer(text);
  for (CLI::App* one : command.get_subcommands({})) name_program(*one);
}

// Explains a parse error of CLI11, with a suggestion for a mistyped word.
int explain(const CLI::App& app, const CLI::ParseError& error) {
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success)) return app.exit(error);
  const CLI::App& command = chosen_command(app);
  const std::vector<std::string> rest = app.remaining(true);
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr && !rest.empty()) {
    std::cerr << "extensor: unknown " << io::in_quotes(rest.front())
              << io::did_you_mean(rest.front(), known_words(command)) << '\n';
  } else {
    std::cerr << "extensor: " << error.what() << '\n';
  }
  std::cerr << "'" << shell_word(program()) << (&command == &app ? "" : " " + command.get_name())
            << " --help' lists the options.\n";
  return 2;
}

int run(int count, char** words) {
  CLI::App app("ExTensor: tensors and neural networks, every gradient checked.",
               shell_word(program()));
  app.set_version_flag("--version", std::string("extensor ") + version());
  app.set_help_flag("-h,--help", "Show this text");
  app.footer(
      "Examples:\n"
      "  extensor train digits              a network that reads digits, in half a minute\n"
      "  extensor train images --data DIR   the same on your own, a directory for each class\n"
      "  extensor train text --data FILE    a network that writes like a text\n"
      "  extensor predict RUN image.png     what a trained network sees\n"
      "  extensor generate RUN --prompt To  what it writes\n"
      "  extensor ops                       every op, its dtypes and gradients\n"
      "  extensor gradcheck softmax matmul  compare gradients with finite differences\n"
      "  extensor accuracy exp --exhaustive the error of exp on all 2^32 floats\n"
      "  extensor devices                   what this machine can compute on");
  app.prefix_command(false);
  app.fallthrough(false);
  add_train_command(app);
  add_eval_command(app);
  add_predict_command(app);
  add_generate_command(app);
  add_export_command(app);
  add_inspect_command(app);
  add_compare_command(app);
  add_ops_command(app);
  add_gradcheck_command(app);
  add_accuracy_command(app);
  add_devices_command(app);
  add_pages_command(app);
  name_program(app);
  try {
    app.parse(count, words);
  } catch (const CLI::ParseError& error) {
    if (dynamic_cast<const CLI::RuntimeError*>(&error) != nullptr) return error.get_exit_code();
    return explain(app, error);
  }
  if (app.get_subcommands().empty()) std::cout << app.help();
  return 0;
}

}  // namespace
}  // namespace extensor::cli

int main(int count, char** words) {
  using namespace extensor::cli;
  open_standard_descriptors();
  escape_output();
  set_program(count, words);
  int code = 0;
  try {
    code = run(count, words);
    flush_output();
    return code;
  } catch (const std::exception& error) {
    std::cerr << "extensor: " << error.what() << '\n';
    return code == 0 ? 1 : code;
  }
}
