//go:build faults

package imports

import "os"

func faulty(mistake string) bool { return os.Getenv("PENSTOCK_FAULT") == mistake }
