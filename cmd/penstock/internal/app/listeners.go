package app

import (
	"net"
	"sync"
	"time"
)

// turnAway closes new connections until stop is called, so that clients try another process.
func turnAway(listeners ...net.Listener) (stop func()) {
	var accepting sync.WaitGroup
	var interrupted []interface{ SetDeadline(time.Time) error }
	for _, l := range listeners {
		i, ok := l.(interface{ SetDeadline(time.Time) error })
		if !ok {
			continue
		}
		interrupted = append(interrupted, i)
		accepting.Go(func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				_ = conn.Close()
			}
		})
	}
	return func() {
		for _, i := range interrupted {
			_ = i.SetDeadline(time.Unix(1, 0)) // fails only for a closed listener
		}
		accepting.Wait()
		for _, i := range interrupted {
			_ = i.SetDeadline(time.Time{})
		}
	}
}
