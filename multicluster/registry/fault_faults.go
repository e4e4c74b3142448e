//go:build faults

package registry

import "os"

func faulty(mistake string) bool { return os.Getenv("PENSTOCK_FAULT") == mistake }
