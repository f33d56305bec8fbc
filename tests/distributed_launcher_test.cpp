// The variables of launchers, read as they set them.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <string>
#include <utility>
#include <vector>

#include "distributed/launcher.h"
#include "extensor/error.h"

namespace extensor::distributed {
namespace {

constexpr const char* all[] = {
    "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMI_SIZE", "RANK", "WORLD_SIZE",
    "SLURM_PROCID",         "SLURM_STEP_NUM_TASKS"};

// Sets these variables and no other.
class Environment {
 public:
  using Variables = std::vector<std::pair<const char*, const char*>>;
  explicit Environment(const Variables& variables) {
    for (const char* name : all) unsetenv(name);
    for (const auto& [name, value] : variables) setenv(name, value, 1);
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;
  ~Environment() {
    for (const char* name : all) unsetenv(name);
  }
};

TEST(Launcher, NothingIsSet) {
  const Environment none(Environment::Variables{});
  const Launch launch = read_launch();
  EXPECT_EQ(launch.launcher, "");
  EXPECT_EQ(launch.rank, 0);
  EXPECT_EQ(launch.size, 1);
}

TEST(Launcher, ReadsEachLauncher) {
  for (const auto& [rank, size] : {std::pair{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                   {"PMI_RANK", "PMI_SIZE"},
                                   {"RANK", "WORLD_SIZE"},
                                   {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS"}}) {
    const Environment set({{rank, "3"}, {size, "16"}});
    const Launch launch = read_launch();
    EXPECT_EQ(launch.rank, 3) << rank;
    EXPECT_EQ(launch.size, 16) << rank;
    EXPECT_NE(launch.launcher, "");
  }
}

TEST(Launcher, MpirunInsideSlurmCounts) {
  const Environment set({{"SLURM_PROCID", "0"},
                         {"SLURM_STEP_NUM_TASKS", "1"},
                         {"OMPI_COMM_WORLD_RANK", "2"},
                         {"OMPI_COMM_WORLD_SIZE", "4"}});
  EXPECT_EQ(read_launch().rank, 2);
  EXPECT_EQ(read_launch().size, 4);
}

TEST(Launcher, HalfASetIsIgnored) {
  const Environment set(Environment::Variables{{"RANK", "1"}});
  EXPECT_EQ(read_launch().size, 1);
}

TEST(Launcher, RefusesWhatIsNoRank) {
  for (const auto& [rank, size] : {std::pair{"4", "4"},
                                   {"-1", "4"},
                                   {"x", "4"},
                                   {"1 ", "4"},
                                   {"", "4"},
                                   {"0", "0"},
                                   {"0", "99999999999"}}) {
    const Environment set({{"RANK", rank}, {"WORLD_SIZE", size}});
    EXPECT_THROW(read_launch(), ValueError) << rank << " of " << size;
  }
}

}  // namespace
}  // namespace extensor::distributed
