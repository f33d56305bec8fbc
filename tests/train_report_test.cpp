// Reports: one self-contained file, whatever the run contains.
#include <gtest/gtest.h>

#include <cmath>

#include "extensor/extensor.h"
#include "support/files.h"
#include "train/chart.h"

namespace extensor::train {
namespace {

using test_support::read_file;
using test_support::TemporaryDirectory;
using test_support::write_file;

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(Report, HasAllItsParts) {
  const TemporaryDirectory directory;
  write_file(
      directory / "log",
      "{\"type\":\"begin\",\"step\":0,\"last_step\":2}\n"
      "{\"type\":\"step\",\"step\":1,\"loss\":2.5,\"accuracy\":0.5,\"learning_rate\":0.1,"
      "\"gradient_norm\":3,\"examples\":64,\"seconds\":0.5}\n"
      "{\"type\":\"step\",\"step\":2,\"loss\":1.5,\"accuracy\":null,\"learning_rate\":0.1,"
      "\"gradient_norm\":2,\"examples\":64,\"seconds\":1.5}\n"
      "{\"type\":\"evaluation\",\"step\":2,\"loss\":1.25,\"accuracy\":0.75,\"seconds\":2}\n");
  Report report;
  report.title = "a < b & \"c\"";
  report.facts = {{"accuracy", "75 %"}};
  report.log = directory / "log";
  report.confusion.emplace(2);
  report.confusion->add(tensor({0, 1, 1, 0}), tensor({0, 1, 1, 1}));
  report.classes = {"cat", "<dog>"};
  report.pictures = {{full({2, 3}, 255, uint8), "dog, taken for cat"}};
  report.model = "Net  12";
  report.configuration = {{"lr", "0.1"}, {"empty", ""}};
  report.timings = {{"all", "2 s"}};
  write_report(directory / "report.html", report);
  const std::string page = read_file(directory / "report.html");
  EXPECT_TRUE(has(page, "a &lt; b &amp; &quot;c&quot;"));
  for (const char* part : {"75 %", "Loss", "Accuracy", "Learning rate", "Norm of the gradients",
                           "&lt;dog&gt;", "Worst mistakes", "dog, taken for cat", "Net  12",
                           "<dt>lr</dt><dd>0.1</dd>", "<dt>all</dt>", "held out, step 2: 1.25"}) {
    EXPECT_TRUE(has(page, part)) << part;
  }
  EXPECT_FALSE(has(page, "<dog>"));
  EXPECT_FALSE(has(page, "empty"));
  // Nothing is loaded: neither by address nor by script.
  EXPECT_FALSE(has(page, "http"));
  EXPECT_FALSE(has(page, "<script"));
  // 64 examples in the second between the two steps.
  EXPECT_TRUE(has(page, "Examples a second"));
  // A PNG begins with these bytes.
  EXPECT_TRUE(has(page, "data:image/png;base64,iVBORw0KGgo"));
}

TEST(Report, IsWrittenOfNothing) {
  const TemporaryDirectory directory;
  write_report(directory / "report.html", {.title = "none"});
  const std::string page = read_file(directory / "report.html");
  EXPECT_TRUE(has(page, "<h1>none</h1>"));
  EXPECT_FALSE(has(page, "<section>"));
}

// A truncated line, wherever it is, costs that line and a warning.
TEST(Report, SkipsDamagedLinesOfTheLog) {
  const TemporaryDirectory directory;
  const std::string good =
      "{\"type\":\"step\",\"step\":1,\"loss\":2.5}\n{\"type\":\"step\",\"step\":2,\"loss\":1.5}\n";
  for (const std::string& line :
       {std::string("nonsense"), std::string("[1]"), std::string("{\"type\":\"step\"}"),
        std::string("{\"type\":\"step\",\"step\":1}{\"type\":"), std::string("\0\0\0", 3),
        std::string("{\"type\":[],\"step\":\"x\"}"), std::string("\xff\xfe"), std::string(),
        std::string(150'000, '['), std::string("{\"type\":\"st")}) {
    for (const int place : {0, 1, 2}) {
      const std::string torn = line + "\n";
      write_file(directory / "log", place == 0   ? torn + good
                                    : place == 1 ? good + torn + good
                                                 : good + line);
      const std::vector<std::string> warnings =
          write_report(directory / "r", {.title = "x", .log = directory / "log"});
      if (place == 2 && line.empty()) {
        EXPECT_TRUE(warnings.empty());
        continue;
      }
      ASSERT_EQ(warnings.size(), 1U) << line.substr(0, 40);
      EXPECT_TRUE(has(warnings[0], place == 0 ? "line 1 is skipped" : "line 3 is skipped"))
          << warnings[0];
      EXPECT_TRUE(has(read_file(directory / "r"), "Loss"));
    }
  }
  const auto warnings = write_report(directory / "r", {.title = "x", .log = directory / "none"});
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_TRUE(has(warnings[0], "the report has no curves")) << warnings[0];
}

TEST(Chart, DrawsWhatCanBeDrawn) {
  EXPECT_EQ(svg({"nothing", "", false, {}}), "");
  EXPECT_EQ(svg({"no number", "", false, {{"a", "train", {{1, std::nan("")}}, false}}}), "");
  for (const bool may_be_log : {false, true}) {
    // One point, equal ones, a wide range, negative ones: every coordinate is a number.
    for (const std::vector<std::pair<double, double>>& points :
         {std::vector<std::pair<double, double>>{{1, 2}},
          {{1, 2}, {2, 2}},
          {{0, 1e-9}, {5, 1e9}},
          {{1, -3}, {2, 4}},
          {{1, 0}, {2, 0}}}) {
      const std::string picture = svg({"a", "", may_be_log, {{"line", "train", points, true}}});
      EXPECT_TRUE(has(picture, "<polyline"));
      EXPECT_FALSE(has(picture, "nan")) << picture;
      EXPECT_FALSE(has(picture, "inf")) << picture;
    }
  }
}

TEST(Chart, ThinsByMeans) {
  std::vector<std::pair<double, double>> points;
  for (int k = 0; k < 10; ++k) points.emplace_back(k, 2 * k);
  const auto few = thinned(points, 5);
  ASSERT_EQ(few.size(), 5U);
  EXPECT_EQ(few[0], (std::pair<double, double>(0.5, 1)));
  EXPECT_EQ(few[4], (std::pair<double, double>(8.5, 17)));
  EXPECT_EQ(thinned(points, 10), points);
}

}  // namespace
}  // namespace extensor::train
