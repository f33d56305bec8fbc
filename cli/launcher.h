// Runs the command that starts the ranks of a run, and passes signals on to them.
#pragma once

#include <string>
#include <vector>

namespace extensor::cli {

// Runs the command in a process group of its own, without standard input, and returns its exit
// code. SIGINT, SIGTERM and SIGHUP go to every process below it that runs this program, so that a
// run ends with a checkpoint: mpirun would kill its ranks after a second. The code is then 128 plus
// the number of the first signal, unless the command succeeds all the same. Throws IoError if the
// command cannot be started.
int run_launcher(std::vector<std::string> words);

}  // namespace extensor::cli
