//go:build !linux

package federation

import "time"

// measured returns 0: the round trip time is unknown on this system.
func measured(int) time.Duration { return 0 }
