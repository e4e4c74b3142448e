package federation

import (
	"time"

	"golang.org/x/sys/unix"
)

func measured(fd int) time.Duration {
	info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil || info.Min_rtt == ^uint32(0) {
		return 0
	}
	return time.Duration(info.Min_rtt) * time.Microsecond
}
