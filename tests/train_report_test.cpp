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
  report.about = {{"date", "2026-11-16"}, {"none", ""}};
  report.command = "extensor train a/b --out 'x y'";
  report.facts = {{"accuracy", "75 %"}};
  report.log = directory / "log";
  report.confusion.emplace(2);
  report.confusion->add(tensor({0, 1, 1, 0}), tensor({0, 1, 1, 1}));
  report.classes = {"cat", "<dog>"};
  report.pictures = {
      {full({2, 3}, 255, uint8), "dog, taken for cat", {{"cat", 0.875}, {"dog", NAN}}}};
  report.model = "Net  12";
  report.configuration = {{"lr", "0.1"}, {"empty", ""}};
  report.timings = {{"all", "2 s"}};
  write_report(directory / "report.html", report);
  const std::string page = read_file(directory / "report.html");
  EXPECT_TRUE(has(page, "a &lt; b &amp; &quot;c&quot;"));
  for (const char* part :
       {"75 %", "Loss", "Accuracy", "Learning rate", "Norm of the gradients", "&lt;dog&gt;",
        "Worst mistakes", "dog, taken for cat", "Net  12", "<dt>lr</dt><dd><span>0.1</span></dd>",
        "<dt>all</dt>", "validation 1.25", "<span>date: 2026-11-16</span>",
        "<span>a/</span><wbr><span>b</span>", "--part:87.5%", "87.5 %",
        "&lt;dog&gt; taken for cat: 1 of 3 (33.3 %)"}) {
    EXPECT_TRUE(has(page, part)) << part;
  }
  EXPECT_FALSE(has(page, "<dog>"));
  EXPECT_FALSE(has(page, "empty"));
  EXPECT_FALSE(has(page, "none:"));
  EXPECT_FALSE(has(page, ">nan"));
  // Nothing is loaded: neither by address nor by script.
  EXPECT_FALSE(has(page, "http"));
  EXPECT_FALSE(has(page, "<script"));
  // 64 examples in the second between the two steps.
  EXPECT_TRUE(has(page, "Examples per second"));
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
  EXPECT_EQ(chart_html({"nothing", "", false, {}}), "");
  EXPECT_EQ(chart_html({"no number", "", false, {{"a", "train", {{1, std::nan("")}}}}}), "");
  for (const bool may_be_log : {false, true}) {
    // One point, equal ones, a wide range, negative ones: every coordinate is a number.
    for (const std::vector<std::pair<double, double>>& points :
         {std::vector<std::pair<double, double>>{{1, 2}},
          {{1, 2}, {2, 2}},
          {{0, 1e-9}, {5, 1e9}},
          {{1, -3}, {2, 4}},
          {{1, 0}, {2, 0}}}) {
      const std::string picture =
          chart_html({"a", "", may_be_log, {{"line", "train", points, Look::marks}}});
      EXPECT_TRUE(has(picture, "<polyline"));
      EXPECT_FALSE(has(picture, "nan")) << picture;
      EXPECT_FALSE(has(picture, "inf")) << picture;
    }
  }
}

// The labels of an axis, in order, found by the class of their elements.
std::vector<std::string> labels_of(const std::string& picture, const std::string& style) {
  std::vector<std::string> labels;
  const std::string begin = "<span class=\"" + style;
  for (std::size_t at = picture.find(begin); at != std::string::npos;
       at = picture.find(begin, at + 1)) {
    const std::size_t from = picture.find('>', at) + 1;
    labels.push_back(picture.substr(from, picture.find('<', from) - from));
  }
  return labels;
}

using Labels = std::vector<std::string>;

TEST(Chart, LabelsBothEndsOfItsAxes) {
  const std::string linear =
      chart_html({"a", " %", false, {{"line", "train", {{1, 12}, {279, 98.5}}}}});
  EXPECT_EQ(labels_of(linear, "x\""), (Labels{"0", "100", "200", "279"}));
  EXPECT_EQ(labels_of(linear, "y"), (Labels{"0 %", "20 %", "40 %", "60 %", "80 %", "100 %"}));
  EXPECT_FALSE(has(linear, "logarithmic"));

  const std::string log = chart_html({"a", "", true, {{"line", "train", {{1, 2.3}, {40, 0.03}}}}});
  EXPECT_EQ(labels_of(log, "y"), (Labels{"0.02", "0.05", "0.1", "0.2", "0.5", "1", "2", "5"}));
  EXPECT_TRUE(has(log, "logarithmic scale"));

  // Many decades: only some powers of ten. Some of many steps are hidden on narrow pages.
  const std::string wide =
      chart_html({"a", "", true, {{"line", "train", {{1, 1e-9}, {50'000, 1e3}}}}});
  EXPECT_EQ(labels_of(wide, "y"),
            (Labels{"1e-09", "1e-07", "1e-05", "0.001", "0.1", "10", "1000"}));
  EXPECT_EQ(labels_of(wide, "x\""), (Labels{"0", "20,000", "40,000", "50,000"}));
  EXPECT_EQ(labels_of(wide, "x spare"), (Labels{"10,000", "30,000"}));
}

// One outlier among the single steps does not flatten the curves.
TEST(Chart, PaleOutliersDoNotStretchTheAxis) {
  Points raw;
  for (int k = 0; k < 100; ++k) raw.emplace_back(k, k == 50 ? 1e6 : 1 + 0.01 * k);
  const std::string picture =
      chart_html({"a",
                  "",
                  false,
                  {{"each step", "train", raw, Look::pale},
                   {"validation", "validation", {{50, 1.5}, {99, 1.2}}, Look::marks}}});
  EXPECT_EQ(labels_of(picture, "y").back(), "2");
}

TEST(Chart, TooltipsNameTheNearestValues) {
  const std::string picture =
      chart_html({"a",
                  "",
                  false,
                  {{"each step", "train", {{1, 9}, {2, 7}, {3, 5}}, Look::pale},
                   {"training", "train", {{1, 8}, {2, 7}, {3, 6}}},
                   {"validation", "validation", {{3, 4.5}}, Look::marks}}});
  EXPECT_TRUE(has(picture,
                  "step 2<br><i class=\"train\"></i>training 7<br>"
                  "<i class=\"validation\"></i>validation 4.5 at step 3<"));
  EXPECT_TRUE(has(picture, "validation 4.5</div>"));
}

TEST(Chart, SmoothsByMeansOfNeighbours) {
  const Points points = {{0, 0}, {1, 3}, {2, 0}, {3, 9}, {4, 3}};
  EXPECT_EQ(smoothed(points, 1), (Points{{0, 0}, {1, 1}, {2, 4}, {3, 4}, {4, 3}}));
  EXPECT_EQ(smoothed(points, 9), (Points{{0, 0}, {1, 1}, {2, 3}, {3, 4}, {4, 3}}));
  EXPECT_EQ(smoothed(points, 0), points);
  EXPECT_TRUE(smoothed({}, 3).empty());
}

TEST(Chart, ThinsByMeans) {
  std::vector<std::pair<double, double>> points;
  for (int k = 0; k < 10; ++k) points.emplace_back(k, 2 * k);
  const auto few = thinned(points, 5);
  ASSERT_EQ(few.size(), 5U);
  EXPECT_EQ(few[0], (std::pair<double, double>(1, 1)));
  EXPECT_EQ(few[4], (std::pair<double, double>(9, 17)));
  EXPECT_EQ(thinned(points, 10), points);
}

}  // namespace
}  // namespace extensor::train
