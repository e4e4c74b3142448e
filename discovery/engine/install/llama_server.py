"""llama.cpp's server as the program llama-server, from the wheel xllamacpp.

The wheel has no such program, but exports the parser that llama-server calls first. So this one
takes the same arguments with the same meaning, and rejects others with the same messages."""
import ctypes
import os
import signal
import sys

from xllamacpp import xllamacpp

# bool common_params_parse(int argc, char ** argv, common_params &, llama_example, void (*usage)(...))
native = ctypes.CDLL(xllamacpp.__file__)._Z19common_params_parseiPPcR13common_params13llama_examplePFviS0_E
native.restype = ctypes.c_bool
native.argtypes = [ctypes.c_int, ctypes.POINTER(ctypes.c_char_p), ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p]


def into(params, example, arguments):
    """Parses arguments into a CommonParams, which begins with Python's header of objects."""
    argv = [os.fsencode(a) for a in ("llama-server", *arguments)]
    return native(len(argv), (ctypes.c_char_p * (len(argv) + 1))(*argv, None), id(params) + object.__basicsize__, example, None)


def server():
    """The number of LLAMA_EXAMPLE_SERVER, which differs between versions: the only one with --metrics."""
    out, null = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)
    try:
        for example in range(40):
            params = xllamacpp.CommonParams()
            if into(params, example, ["--metrics", "--port", "12345"]):
                if params.port != 12345 or not params.endpoint_metrics:
                    sys.exit("this wheel has another layout of common_params")
                return example
    finally:
        os.dup2(out, 2)
        os.close(out)
        os.close(null)
    sys.exit("this wheel has no parser of the server's arguments")


def parse(arguments):
    """A CommonParams; None after a message about a wrong argument. --help prints and ends."""
    params = xllamacpp.CommonParams()
    return params if into(params, server(), arguments) else None


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGINT])
    params = parse(sys.argv[1:])
    if params is None:
        sys.exit(1)
    running = xllamacpp.Server(params)  # it ends with this object
    print("listening at", running.listening_address, flush=True)
    signal.sigwait([signal.SIGTERM, signal.SIGINT])
    os._exit(0)
