// Tables with columns of numbers and categories: reading, encoding and mistakes in files.
#include <cmath>

#include "data/table.h"
#include "support/child_process.h"
#include "support/data_files.h"
#include "support/files.h"

namespace {

using namespace extensor;
using data::ColumnKind;
using data::Task;
using test_support::expect_error;
using test_support::source_of;
using test_support::TemporaryDirectory;
using test_support::write_file;
using Codes = std::vector<std::int64_t>;
using Names = std::vector<std::string>;

data::Table read(const std::string& text, const data::TableOptions& options = {}) {
  return io::read_table(source_of("load_table: 'file'", text), options);
}

const char* const houses =
    "city,area,garden,price\n"
    "Ulm,50,yes,100\n"
    "Bonn,80,,180\n"
    "Ulm,NA,no,120\n"
    "Kiel,110,yes,\n"
    "Bonn,80,no,200\n";

TEST(Table, HasColumnsOfNumbersAndCategories) {
  const data::Table table = read(houses);
  EXPECT_EQ(table.rows(), 5);
  ASSERT_EQ(table.columns.size(), 4U);
  const data::Column& city = table.column("city");
  EXPECT_EQ(city.kind, ColumnKind::category);
  EXPECT_EQ(city.categories, (Names{"Bonn", "Kiel", "Ulm"}));
  EXPECT_EQ(city.codes, (Codes{2, 0, 2, 1, 0}));
  EXPECT_EQ(table.column("garden").codes, (Codes{1, -1, 0, 1, 0}));
  EXPECT_EQ(table.column("garden").missing(), 1);
  const data::Column& area = table.column("area");
  EXPECT_EQ(area.kind, ColumnKind::number);
  EXPECT_EQ(area.missing(), 1);
  EXPECT_TRUE(std::isnan(area.numbers[2]));
  EXPECT_EQ(area.numbers[3], 110);
}

TEST(Table, ReadsQuotedCellsWithLineEndsAndSeparators) {
  const data::Table table =
      read("\xef\xbb\xbf\"a\nb\",c\r\n\"x, \"\"y\"\"\r\nz\",1\r\nplain , 2\r\n\n");
  EXPECT_EQ(table.columns[0].name, "a\nb");
  EXPECT_EQ(table.columns[0].categories, (Names{"plain", "x, \"y\"\r\nz"}));
  EXPECT_EQ(table.columns[1].numbers, (std::vector<double>{1, 2}));
  EXPECT_EQ(read("a;b\n1;x\n", {.separator = ';'}).columns[1].categories, (Names{"x"}));
  // A line number counts the line ends in quotes.
  expect_error<FormatError>([] { read("a,b\n\"1\n2\n3\",4\n5\n"); }, {"line 5", "1 cells"});
  // A column without a name, as programs write for the row's number.
  EXPECT_EQ(read(",x\n0,1\n").columns[0].name, "column 1");
}

TEST(Table, ReadsNumbersAsCategoriesIfAsked) {
  const data::Table table = read("zip,n\n01234,1\n1234,2\n", {.categories = {"zip"}});
  EXPECT_EQ(table.columns[0].categories, (Names{"01234", "1234"}));
  EXPECT_EQ(read("a,b\n,x\nnull,y\n").columns[0].kind, ColumnKind::number);
  expect_error<ValueError>([] { read("zip,n\n1,2\n", {.categories = {"zap"}}); },
                           {"'zap'", "did you mean 'zip'?"});
  expect_error<FormatError>([] { read("a,b\nx,2\ny,3\nz,4\n", {.numbers = {"a"}}); },
                            {"line 2, column 1", "'x'", "'a'", "no number"});
}

TEST(Table, TakesAndSplitsRows) {
  std::string text = "n,word\n";
  for (int k = 0; k < 25; ++k) text += std::to_string(k) + (k % 2 == 0 ? ",a\n" : ",b\n");
  const data::TableSplits splits = data::split_table(read(text));
  EXPECT_EQ(splits.train.rows(), 23);
  EXPECT_EQ(splits.test.column("n").numbers, (std::vector<double>{9, 19}));
  EXPECT_EQ(splits.test.column("word").codes, (Codes{1, 1}));
  EXPECT_EQ(splits.test.column("word").categories, (Names{"a", "b"}));
  EXPECT_EQ(splits.test.take({}).rows(), 0);
  expect_error<IndexError>([&] { splits.test.take({0, 2}); }, {"Table::take", "row 2 of 2"});
  expect_error<ValueError>([&] { data::split_table(splits.test, 1); }, {"every is 1"});
}

// ---- mistakes in files --------------------------------------------------------------------------

CHILD_TEST(Table, NamesTheLineAndColumnOfWhatIsWrong) {
  const auto wrong = [](const std::string& text, const Names& parts) {
    Names all = parts;
    all.emplace_back("load_table: 'file'");
    expect_error<FormatError>([&] { read(text); }, all);
  };
  wrong("", {"is empty"});
  wrong("\n\r\n", {"is empty"});
  wrong("\xef\xbb\xbf", {"is empty"});
  wrong("1,2\n3,4\n", {"line 1", "only numbers", "names of the columns"});
  wrong("a,b,a\n1,2,3\n", {"line 1, column 3", "'a'", "column 1", "every name once"});
  wrong("a,b\n1,2\n3\n", {"line 3", "1 cells", "2"});
  wrong("a,b\n1,2\n3,4,5\n", {"line 3, column 3", "more than the 2 cells"});
  wrong("a\n1;2\n3,4\n", {"line 3, column 2", "separator"});
  wrong("a,b\n1,2\n\n3,4\n", {"line 3 is empty"});
  wrong("a,b\n1,x\xff\n", {"line 2", "\\xff", "UTF-8"});
  wrong("a,b\n1,\"x\n", {"line 2, column 2", "quote has no end"});
  wrong("a,b\n1,\"x\"y\n", {"line 2, column 2", "behind a quoted cell"});
  wrong("a,b\n1,2\n3,inf\n", {"line 3, column 2", "'inf'", "'b'", "infinite"});
  wrong("a,b\n1,2\n3,-Infinity\n", {"line 3, column 2", "infinite"});
  wrong("a,b\n1,1e999\n", {"line 2, column 2", "'1e999'", "beyond float64"});
  // Numbers with a few words in between are a mistake; words with a few numbers are categories.
  wrong("a,b\n1,2\n3,4\n5,six\n", {"line 4, column 2", "'six'", "2 of 3 cells", "'b'"});
  EXPECT_EQ(read("a,b\n1,x\n3,y\n5,6\n").columns[1].categories, (Names{"6", "x", "y"}));
  wrong("a,b\n1," + std::string((1 << 20) + 1, 'x') + "\n", {"line 2, column 2", "1048577 bytes"});
  wrong("a,b\n1,\"" + std::string((1 << 20) + 1, '\n') + "\"\n", {"line 2, column 2", "bytes"});
  const data::Table header_only = read("a,b\n");
  EXPECT_EQ(header_only.rows(), 0);
  expect_error<ValueError>([&] { data::TableEncoder(header_only, "a"); }, {"'a'", "no values"});
}

TEST(Table, IsReadFromAFile) {
  const TemporaryDirectory directory;
  write_file(directory / "x.csv", houses);
  EXPECT_EQ(data::load_table(directory / "x.csv").rows(), 5);
  expect_error<IoError>([&] { data::load_table(directory / "y.csv"); }, {"load_table", "y.csv"});
  expect_error<ValueError>([&] { data::load_table(directory / "x.csv", {.separator = '1'}); },
                           {"load_table", "separator"});
  const data::Table table = read(houses);
  expect_error<ValueError>([&] { table.column("prize"); },
                           {"'prize'", "did you mean 'price'?", "city, area, garden, price"});
}

// ---- encoding -----------------------------------------------------------------------------------

TEST(TableEncoder, EncodesNumbersAndCategories) {
  const data::Table table = read(houses);
  const data::TableEncoder encoder(table, "price", {.task = Task::regression});
  // Rows with a price: areas 50, 80, missing, 80; their mean is 70, their deviation √200.
  EXPECT_EQ(encoder.outputs(), 1);
  const double deviation = std::sqrt(200.0);
  ASSERT_EQ(encoder.encoding().columns.size(), 3U);
  const data::EncodedColumn &city = encoder.encoding().columns[0],
                            &area = encoder.encoding().columns[1],
                            &garden = encoder.encoding().columns[2];
  EXPECT_EQ(city.categories, (Names{"Bonn", "Ulm"}));
  EXPECT_FALSE(city.has_other || city.has_missing);  // the row with Kiel has no price
  EXPECT_DOUBLE_EQ(area.mean, 70);
  EXPECT_DOUBLE_EQ(area.deviation, deviation);
  EXPECT_TRUE(area.has_missing);
  EXPECT_EQ(garden.categories, (Names{"no"}));  // "yes" occurs once
  EXPECT_TRUE(garden.has_other && garden.has_missing);
  EXPECT_EQ(encoder.inputs(), 2 + 2 + 3);
  const auto part = [&](double x) { return static_cast<float>((x - 70) / deviation); };
  EXPECT_EQ(encoder.encode(table).to_vector<float>(),
            (std::vector<float>{0, 1, part(50),  0, 0, 1, 0,  //
                                1, 0, part(80),  0, 0, 0, 1,  //
                                0, 1, 0,         1, 1, 0, 0,  //
                                0, 0, part(110), 0, 0, 1, 0,  // Kiel is unknown
                                1, 0, part(80),  0, 1, 0, 0}));
  const data::TensorDataset rows = encoder.dataset(table);
  EXPECT_EQ(rows.size(), 4);
  const std::int64_t all[] = {0, 1, 2, 3};
  const Tensor targets = rows.batch({all}).targets;
  EXPECT_EQ(targets.shape(), (Shape{4, 1}));
  // 100, 180, 120, 200: mean 150, deviation √1700.
  EXPECT_NEAR(targets.to_vector<float>()[0], -50 / std::sqrt(1700.0), 1e-6);
  const std::vector<double> prices = encoder.decode(targets).to_vector<double>();
  for (std::size_t k = 0; k < 4; ++k) {
    EXPECT_NEAR(prices[k], (std::vector<double>{100, 180, 120, 200})[k], 1e-4);
  }
  expect_error<ValueError>([&] { encoder.encode_target(table); }, {"'price'", "row 3"});
  // Counted: the missing values, and the category that training did not have.
  const auto unusual = encoder.unusual(table);
  ASSERT_EQ(unusual.size(), 3U);
  EXPECT_EQ(unusual[0].column, "city");
  EXPECT_EQ(unusual[0].unknown, 1);
  EXPECT_EQ(unusual[1].missing, 1);
}

TEST(TableEncoder, DecidesTheTask) {
  const auto task = [](const std::string& cells) {
    return data::usual_task(read("t,x\n" + cells).columns[0]);
  };
  EXPECT_EQ(task("a,1\nb,2\n"), Task::classification);
  EXPECT_EQ(task("0,1\n1,2\n"), Task::classification);
  EXPECT_EQ(task("0,1\n1.5,2\n"), Task::regression);
  std::string twenty, more;
  for (int k = 0; k < 21; ++k) {
    more += std::to_string(k) + ",1\n";
    if (k < 20) twenty += std::to_string(k) + ",1\n";
  }
  EXPECT_EQ(task(twenty), Task::classification);
  EXPECT_EQ(task(more), Task::regression);
  // Whole numbers as classes, in numerical order.
  const data::Table table = read("t,x\n10,1\n9,2\n-1,3\n10.0,4\n");
  const data::TableEncoder encoder(table, "t");
  EXPECT_EQ(encoder.classes(), (Names{"-1", "9", "10"}));
  EXPECT_EQ(encoder.encode_target(table).to_vector<std::int64_t>(), (Codes{2, 1, 0, 2}));
  expect_error<ValueError>([&] { encoder.encode_target(read("t,x\n9,1\n8,2\n")); },
                           {"'t'", "'8'", "row 1", "none of the 3 classes"});
}

TEST(TableEncoder, LimitsCategoriesAndLeavesOutConstants) {
  std::string text = "id,same,empty,word,t\n";
  for (int k = 0; k < 40; ++k) {
    const std::string number = std::to_string(k);
    text += "i" + number + ",5,," + (k < 20 ? "a" : k < 32 ? "b" : "c") + "," + number + ".5\n";
  }
  const data::Table table = read(text);
  const data::TableEncoder encoder(table, "t", {.max_categories = 2});
  // Every id occurs once, so that all of them share one input, which does not vary.
  EXPECT_EQ(encoder.encoding().constant, (Names{"id", "same", "empty"}));
  ASSERT_EQ(encoder.encoding().columns.size(), 1U);
  EXPECT_EQ(encoder.encoding().columns[0].categories, (Names{"a", "b"}));
  EXPECT_TRUE(encoder.encoding().columns[0].has_other);
  EXPECT_EQ(encoder.inputs(), 3);
  // An unknown category takes the place of the rare ones.
  EXPECT_EQ(encoder.encode(read("word\nz\na\n")).to_vector<float>(),
            (std::vector<float>{0, 0, 1, 1, 0, 0}));
  expect_error<ValueError>([&] { data::TableEncoder(table, "t", {.ignore = {"word"}}); },
                           {"no column varies", "'t'"});
}

TEST(TableEncoder, RefusesTargetsThatTeachNothing) {
  const auto wrong = [](const std::string& text, const data::TableEncoderOptions& options,
                        const Names& parts) {
    expect_error<ValueError>([&] { data::TableEncoder(read(text), "t", options); }, parts);
  };
  wrong("t,x\na,1\na,2\n", {}, {"'t'", "1 classes", "2 … 1000"});
  wrong("t,x\n1.5,1\n1.5,2\n", {}, {"'t'", "1.5 in all rows"});
  wrong("t,x\na,1\nb,2\n", {.task = Task::regression}, {"'t'", "categories", "regression"});
  wrong("t,x\n,1\n,2\n", {}, {"'t'", "no values"});
  wrong("y,x\n1,2\n", {}, {"'t'", "y, x"});
  wrong("t,x\na,1\nb,2\n", {.ignore = {"z"}}, {"'z'"});
  wrong("t,x\na,1\nb,2\n", {.max_categories = 0}, {"max_categories is 0"});
  wrong("t,x\na,1e308\nb,-1e308\n", {}, {"'x'", "deviation"});
  std::string text = "t,x\n";
  for (int k = 0; k < 1001; ++k) text += "c" + std::to_string(k) + "," + std::to_string(k) + "\n";
  wrong(text, {}, {"1001 classes"});
  const data::TableEncoder encoder(read("t,x\na,1\nb,2\n"), "t");
  expect_error<ValueError>([&] { encoder.encode(read("t,y\na,1\n")); }, {"'x'"});
  expect_error<ValueError>([&] { encoder.encode(read("t,x\na,v\n")); }, {"'x'", "categories"});
  expect_error<ValueError>([&] { encoder.decode(zeros({2, 1})); }, {"classification"});
  expect_error<ValueError>([&] { encoder.encode(read("x\n1e300\n")); }, {"'x'", "row 0", "mean"});
  EXPECT_EQ(encoder.encode(read("x,z\n")).shape(), (Shape{0, 1}));
}

TEST(TableEncoder, IsRestoredFromItsEncoding) {
  const data::Table table = read(houses);
  const data::TableEncoder encoder(table, "price", {.task = Task::regression});
  const data::TableEncoder again(encoder.encoding());
  EXPECT_EQ(again.encode(table).to_vector<float>(), encoder.encode(table).to_vector<float>());
  const data::TableOptions options = again.options(false);
  EXPECT_EQ(options.categories, (Names{"city", "garden"}));
  EXPECT_EQ(options.numbers, (Names{"area"}));
  data::TableEncoding broken = encoder.encoding();
  broken.deviation = 0;
  expect_error<ValueError>([&] { data::TableEncoder{broken}; }, {"'price'", "deviation 0"});
  broken = encoder.encoding();
  broken.columns.clear();
  expect_error<ValueError>([&] { data::TableEncoder{broken}; }, {"no columns"});
}

// A dozen lines from a file to a trained network.
TEST(TableEncoder, TrainsANetwork) {
  std::string text = "x,kind,y\n";
  for (int k = 0; k < 400; ++k) {
    const double x = k % 37 / 37.0;
    text += std::to_string(x) + (k % 3 == 0 ? ",up," : ",down,") +
            std::to_string(k % 3 == 0 ? 100 + 50 * x : 100 - 50 * x) + "\n";
  }
  const data::TableSplits rows = data::split_table(read(text));
  const data::TableEncoder encoder(rows.train, "y");
  manual_seed(0);
  models::Mlp model({encoder.inputs(), 32, encoder.outputs()});
  optim::AdamW optimizer(model.parameters(), {.lr = 1e-2});
  const train::Loss loss = [](const Tensor& a, const Tensor& b) { return mse(a, b); };
  train::Trainer trainer(model, optimizer, {.epochs = 40, .loss = loss});
  const data::DataLoader training(encoder.dataset(rows.train), {.batch_size = 32});
  const data::DataLoader held_out(encoder.dataset(rows.test), {.shuffle = false});
  // Below 1 % of the variance.
  EXPECT_LT(trainer.fit(training, &held_out).last.loss, 0.01);
}

}  // namespace
