package processes

import "time"

// processes is empty, because macOS hides other processes' sockets.
type processes struct{}

func listProcesses() processes { return processes{} }

func (processes) listener(string, int, mark) owner { return unknown }

func (processes) cpu(int) (time.Duration, bool) { return 0, false }
