// Package heap has the garbage of a small process collected seldom.
//
// Go collects the garbage of a small heap often, however fast it comes: it lets the heap double, and 4 MiB at least. At some thousand picks a
// second the heap of a picker alone, of 2 MiB, is collected several times a second, each time with all processors woken to mark it: by
// profiles behind a saturated Envoy that is 5 to 6 % of the process's CPU, and 1 to 2 % with a floor of 32 MiB. The cost of a pick by headers
// beside an echo (pick_none) varied by more than that from run to run on a busy machine: the difference was not proven there.
//
// The heap of a new process is not to grow further than that either: GOGC scales the 4 MiB, too, and memory that is used for the first time costs
// more than garbage that is collected, 2 to 5 % of the CPU of the first seconds.
//
// GOGC belongs to the process, so only one Floor may be held at a time. Another part of the process may set GOGC meanwhile: that counts as the
// value without the floor.
//
// Only package picker calls it. Tests: go test ./picker/heap.
package heap
