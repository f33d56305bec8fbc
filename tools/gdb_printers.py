"""Pretty printers of gdb for ExTensor: tensors, shapes and dtypes.

An installed ExTensor has this file where gdb loads it together with the library. From the sources:

    (gdb) source tools/gdb_printers.py
    (gdb) print x
    $1 = float32 [2, 3], requires grad = {1, 2, 3, 4, 5, 6}
"""

import struct

import gdb
import gdb.printing

# How struct unpacks an element; bfloat16 is the upper half of a float.
FORMATS = {
    "bool_": "?", "int8": "b", "int16": "h", "int32": "i", "int64": "q",
    "uint8": "B", "uint16": "H", "uint32": "I", "uint64": "Q",
    "float16": "e", "bfloat16": "H", "float32": "f", "float64": "d",
}
MAX_RANK = 64


def enumerator(value):
    """The name of an enumerator without its scope. str(value) would ask the printers again."""
    for field in value.type.strip_typedefs().fields():
        if field.enumval == int(value):
            return field.name.rpartition("::")[2]
    return str(int(value))


def dims(value):
    """The numbers of an extensor::Dims, or None if it is not initialized."""
    size, capacity = int(value["size_"]), int(value["capacity_"])
    if size > min(capacity, MAX_RANK):
        return None
    data = value["heap_"] if capacity > 6 else value["inline_"]
    return [int(data[k]) for k in range(size)]


def shown(dimensions):
    return "[" + ", ".join(map(str, dimensions)) + "]"


class DimsPrinter:
    def __init__(self, value):
        self.value = value

    def to_string(self):
        dimensions = dims(self.value)
        return "not initialized" if dimensions is None else shown(dimensions)


class DTypePrinter:
    def __init__(self, value):
        self.value = value

    def to_string(self):
        return enumerator(self.value)


class TensorPrinter:
    """A tensor by dtype, shape, and its elements in row-major order, as many as gdb prints."""

    def __init__(self, value):
        self.impl = value["impl_"]

    def to_string(self):
        try:
            if int(self.impl) == 0:
                return "undefined"
            impl = self.impl.dereference()
            shape = dims(impl["shape"])
            if shape is None or enumerator(impl["dtype"]) not in FORMATS:
                return "not initialized"
            text = enumerator(impl["dtype"]) + " " + shown(shape)
            device = self.device(impl)
            if device != "cpu":
                text += " on " + device
            if int(impl["node"]["node_"]) != 0:
                text += ", requires grad"
            return text
        except gdb.MemoryError:
            return "not initialized"

    @staticmethod
    def device(impl):
        device = impl["storage"]["storage_"].dereference()["device"]
        name = enumerator(device["type"])
        return name if name == "cpu" else "%s:%d" % (name, int(device["index"]))

    def children(self):
        try:
            if int(self.impl) == 0:
                return
            impl = self.impl.dereference()
            shape, strides = dims(impl["shape"]), dims(impl["strides"])
            code = FORMATS.get(enumerator(impl["dtype"]))
            if shape is None or strides is None or code is None or self.device(impl) != "cpu":
                return
            size = struct.calcsize(code)
            data, numel = int(impl["data"]), int(impl["numel"])
            index = [0] * len(shape)
            memory = gdb.selected_inferior()
            for k in range(numel):
                offset = sum(i * s for i, s in zip(index, strides))
                element = bytes(memory.read_memory(data + offset * size, size))
                if enumerator(impl["dtype"]) == "bfloat16":
                    number = struct.unpack("<f", b"\0\0" + element)[0]
                else:
                    number = struct.unpack("<" + code, element)[0]
                yield "[%d]" % k, ("%.9g" % number if isinstance(number, float) else str(number))
                for axis in reversed(range(len(shape))):
                    index[axis] += 1
                    if index[axis] < shape[axis]:
                        break
                    index[axis] = 0
        except gdb.MemoryError:
            return

    def display_hint(self):
        return "array"


class HolderPrinter(TensorPrinter):
    """nn::Parameter and nn::Buffer, which are tensors."""

    def __init__(self, value):
        super().__init__(value.cast(gdb.lookup_type("extensor::Tensor")))


def printers():
    collection = gdb.printing.RegexpCollectionPrettyPrinter("extensor")
    collection.add_printer("Dims", "^extensor::(Dims|Shape|Strides)$", DimsPrinter)
    collection.add_printer("DType", "^extensor::DType$", DTypePrinter)
    collection.add_printer("Tensor", "^extensor::Tensor$", TensorPrinter)
    collection.add_printer("Parameter", "^extensor::nn::(Parameter|Buffer)$", HolderPrinter)
    return collection


gdb.printing.register_pretty_printer(gdb.current_objfile(), printers(), replace=True)
