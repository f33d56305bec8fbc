// npy files and zip archives made by hand, so that tests can make them inconsistent.
#pragma once

#include <gtest/gtest.h>
#include <zlib.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "extensor/extensor.h"
#include "io/npy.h"
#include "io/zip_format.h"

namespace test_support {

namespace io = extensor::io;

inline std::string text_of(const io::MemorySink& sink) {
  return {reinterpret_cast<const char*>(sink.bytes.data()), sink.bytes.size()};
}

inline std::string npy(const std::string& dict, const std::string& elements) {
  std::string file("\x93NUMPY\1\0", 8);
  io::append_number(file, static_cast<std::uint16_t>(dict.size()));
  return file + dict + elements;
}

inline std::string npy_of(const extensor::Tensor& tensor) {
  io::MemorySink sink;
  io::write_npy(sink, "npy", tensor);
  return text_of(sink);
}

inline std::string deflated(const std::string& data) {
  std::string result(data.size() + 1000, '\0');
  z_stream stream{};
  deflateInit2(&stream, 9, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(data.data()));
  stream.avail_in = static_cast<uInt>(data.size());
  stream.next_out = reinterpret_cast<Bytef*>(result.data());
  stream.avail_out = static_cast<uInt>(result.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  result.resize(stream.total_out);
  deflateEnd(&stream);
  return result;
}

// A zip archive made by hand.
struct Entry {
  std::string name, data;
  std::uint16_t method = 0;
  std::uint32_t size = 0, crc = 0;  // of the contents
  std::uint16_t flags = 0;
  std::string extra;  // of the central directory

  static Entry stored(const std::string& name, const std::string& data) {
    return {name, data, 0, static_cast<std::uint32_t>(data.size()), crc_of(data), 0, ""};
  }
  static Entry compressed(const std::string& name, const std::string& data) {
    return {name, deflated(data), 8, static_cast<std::uint32_t>(data.size()), crc_of(data), 0, ""};
  }
  static std::uint32_t crc_of(const std::string& data) {
    return static_cast<std::uint32_t>(
        crc32(0, reinterpret_cast<const Bytef*>(data.data()), static_cast<uInt>(data.size())));
  }
};

struct Archive {
  std::string file;
  std::size_t directory = 0, end = 0;  // their offsets

  // All entries share the data of the first when `shared` is set.
  explicit Archive(const std::vector<Entry>& entries, bool shared = false) {
    std::vector<std::uint32_t> places;
    for (const Entry& entry : entries) {
      if (shared && !places.empty()) {
        places.push_back(places.front());
        continue;
      }
      places.push_back(static_cast<std::uint32_t>(file.size()));
      io::append_number(file, io::local_signature);
      append_shared(entry, 0);
      file += entry.name + entry.data;
    }
    directory = file.size();
    for (std::size_t i = 0; i < entries.size(); ++i) {
      io::append_number(file, io::central_signature);
      io::append_number<std::uint16_t>(file, 20);
      append_shared(entries[i], entries[i].extra.size());
      file.append(10, '\0');
      io::append_number(file, places[i]);
      file += entries[i].name + entries[i].extra;
    }
    end = file.size();
    io::append_number(file, io::end_signature);
    io::append_number<std::uint32_t>(file, 0);
    io::append_number(file, static_cast<std::uint16_t>(entries.size()));
    io::append_number(file, static_cast<std::uint16_t>(entries.size()));
    io::append_number(file, static_cast<std::uint32_t>(end - directory));
    io::append_number(file, static_cast<std::uint32_t>(directory));
    io::append_number<std::uint16_t>(file, 0);
  }

  template <class Number>
  std::string with(std::size_t at, Number value) const {
    std::string changed = file;
    std::memcpy(changed.data() + at, &value, sizeof(value));
    return changed;
  }

 private:
  void append_shared(const Entry& entry, std::size_t extra) {
    io::append_number<std::uint16_t>(file, 20);
    io::append_number(file, entry.flags);
    io::append_number(file, entry.method);
    io::append_number<std::uint32_t>(file, 0);
    io::append_number(file, entry.crc);
    io::append_number(file, static_cast<std::uint32_t>(entry.data.size()));
    io::append_number(file, entry.size);
    io::append_number(file, static_cast<std::uint16_t>(entry.name.size()));
    io::append_number(file, static_cast<std::uint16_t>(extra));
  }
};

}  // namespace test_support
