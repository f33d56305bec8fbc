// Tables as data of a run: loading, description, saving of the encoding, and predictions.
#pragma once

#include "cli/run_parts.h"

namespace extensor::cli {

// Like load_data.
Data load_table(const Recipe& recipe, std::optional<Language> language, bool all_held_out,
                const FingerprintCheck& check);
// "20 columns, 31 inputs; 3 classes: a, b, c"; then lines about missing values and columns that
// are not used.
std::string described_table(const Data& data);

void save_table_encoder(const std::filesystem::path& path, const data::TableEncoder& encoder);
// Throws FormatError or IoError.
data::TableEncoder read_table_encoder(const std::filesystem::path& path);

// Prints a CSV file with a prediction for each row of a file.
void predict_table(const Trained& trained, const std::string& path);

// "R² 0.9312, root mean squared error 12.3 (in the unit of 'price')".
std::string regression_result(const Data& data, const train::Evaluation& evaluation);
// 1 − squared error / variance of the held-out rows; NaN if these do not vary.
double r_squared(const Data& data, const train::Evaluation& evaluation);
double root_mean_squared_error(const Data& data, const train::Evaluation& evaluation);
// With three digits; from 1000 on, as a whole number.
std::string root_mean_squared_error_text(const Data& data, const train::Evaluation& evaluation);

}  // namespace extensor::cli
