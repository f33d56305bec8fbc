#include "cli/commands.h"

namespace extensor::cli {

void add_accuracy_command(CLI::App&) {}

}  // namespace extensor::cli
