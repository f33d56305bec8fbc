// The commands that the tool prints, quoted so that they can be pasted into a shell.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace extensor::cli {

// The words that started the tool. The first is its name: "extensor", or the path that was typed.
void set_program(int count, const char* const* words);
const std::string& program();
const std::vector<std::string>& program_arguments();  // without the first
// All of them, as a shell reads them.
std::string typed_command();

// One word of a shell command line, quoted if a shell would interpret it.
std::string shell_word(std::string_view text);

// command_line({"train", "--resume", "my run"}) is `build/cli/extensor train --resume 'my run'`.
std::string command_line(std::initializer_list<std::string> words);

}  // namespace extensor::cli
