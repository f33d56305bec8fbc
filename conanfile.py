"""Conan 2 recipe: `conan create .` builds these sources, `conan install` of a project uses them."""

import re
from pathlib import Path

from conan import ConanFile
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain, cmake_layout


class ExTensor(ConanFile):
    name = "extensor"
    description = "Tensors, gradients and SIMD kernels for C++20"
    license = "BSD-3-Clause"
    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"shared": [True, False], "fPIC": [True, False], "tool": [True, False]}
    default_options = {"shared": True, "fPIC": True, "tool": False}
    implements = ["auto_shared_fpic"]
    exports_sources = ("CMakeLists.txt", "cmake/*", "include/*", "src/*", "cli/*", "op_database/*",
                       "tests/support/*", "tools/*", "docs/*", "examples/*", "LICENSE", "README.md",
                       "CHANGELOG.md")

    def set_version(self):
        text = (Path(self.recipe_folder) / "CMakeLists.txt").read_text(encoding="utf-8")
        self.version = re.search(r"project\(extensor VERSION ([0-9.]+)", text).group(1)

    def requirements(self):
        # Headers only, and none of them appears in the headers of ExTensor.
        for dependency in ("highway/[>=1.0.3 <2]", "nlohmann_json/[>=3.11 <4]"):
            self.requires(dependency, visible=False)
        if self.options.tool:
            self.requires("cli11/[>=2.2 <3]", visible=False)
        self.requires("zlib/[>=1.2.11 <2]")
        self.requires("libjpeg-turbo/[>=2.1 <4]")

    def validate(self):
        check_min_cppstd(self, 20)

    def layout(self):
        cmake_layout(self)

    def generate(self):
        dependencies = CMakeDeps(self)
        # The names of Highway's own CMake package.
        dependencies.set_property("highway", "cmake_file_name", "hwy")
        dependencies.set_property("highway", "cmake_target_name", "hwy::hwy")
        dependencies.generate()
        toolchain = CMakeToolchain(self)
        toolchain.cache_variables["EXTENSOR_BUILD_TESTS"] = False
        toolchain.cache_variables["EXTENSOR_BUILD_EXAMPLES"] = False
        toolchain.cache_variables["EXTENSOR_JPEG"] = "ON"
        # The package must not depend on the libraries of the machine that builds it.
        toolchain.cache_variables["EXTENSOR_MPI"] = "OFF"
        toolchain.cache_variables["EXTENSOR_CUDA"] = "OFF"
        toolchain.cache_variables["EXTENSOR_BUILD_TOOL"] = bool(self.options.tool)
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        CMake(self).install()

    def package_info(self):
        # The package has its own extensorConfig.cmake; Conan need not make one.
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.builddirs = ["lib/cmake/extensor"]
        self.cpp_info.set_property("pkg_config_name", "extensor")
        self.cpp_info.libs = ["extensor"]
        if self.settings.os == "Linux":
            self.cpp_info.system_libs = ["dl", "pthread"]
