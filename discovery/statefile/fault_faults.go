//go:build faults

package statefile

import "os"

func faulty(mistake string) bool { return os.Getenv("PENSTOCK_FAULT") == mistake }
