// The commands of the tool. Each function registers a command, which runs when it is chosen.
#pragma once

#include <CLI/CLI.hpp>

namespace extensor::cli {

void add_ops_command(CLI::App& app);
void add_gradcheck_command(CLI::App& app);
void add_accuracy_command(CLI::App& app);
void add_devices_command(CLI::App& app);
void add_train_command(CLI::App& app);
void add_eval_command(CLI::App& app);
void add_predict_command(CLI::App& app);
void add_generate_command(CLI::App& app);
void add_export_command(CLI::App& app);
void add_inspect_command(CLI::App& app);
void add_compare_command(CLI::App& app);
void add_pages_command(CLI::App& app);

}  // namespace extensor::cli
