//go:build faults

package channel

import "os"

func faulty(mistake string) bool { return os.Getenv("PENSTOCK_FAULT") == mistake }
