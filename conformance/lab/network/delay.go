//go:build linux

package network

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// wire carries packets from one namespace to another with a delay. It uses TUN interfaces, because
// some kernels lack the queueing discipline netem.
type wire struct {
	by       time.Duration
	from, to *os.File
	closed   chan struct{}
	running  sync.WaitGroup
}

// queued is how many packets a wire holds. A full wire drops packets.
const queued = 16384

const mtu = 1500

type packet struct {
	due time.Time
	raw []byte
}

func newWire(from *Namespace, fromName string, to *Namespace, toName string, by time.Duration) (*wire, error) {
	w := &wire{by: by, closed: make(chan struct{})}
	var err error
	if w.from, err = from.tun(fromName); err != nil {
		return nil, err
	}
	if w.to, err = to.tun(toName); err != nil {
		return nil, errors.Join(err, w.from.Close())
	}
	way := make(chan packet, queued)
	w.running.Go(func() { w.receive(way) }) // ends when w.close closes the interface
	w.running.Go(func() { w.deliver(way) }) // ends when w.closed closes
	return w, nil
}

func (w *wire) receive(way chan<- packet) {
	for {
		raw := make([]byte, mtu)
		n, err := w.from.Read(raw)
		if err != nil {
			return
		}
		select {
		case way <- packet{time.Now().Add(w.by), raw[:n]}:
		default:
		}
	}
}

func (w *wire) deliver(way <-chan packet) {
	for {
		select {
		case <-w.closed:
			return
		case p := <-way:
			select {
			case <-w.closed:
				return
			case <-time.After(time.Until(p.due)):
			}
			_, _ = w.to.Write(p.raw) // fails if the interface is down; the packet is then lost
		}
	}
}

// close returns once the names of both interfaces are free.
func (w *wire) close() {
	close(w.closed)
	_ = w.from.Close()
	_ = w.to.Close()
	w.running.Wait()
}

func (n *Namespace) tun(name string) (file *os.File, err error) {
	err = n.Do(func() error {
		const device = "/dev/net/tun"
		fd, err := unix.Open(device, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
		if err != nil {
			return fmt.Errorf("a delayed link needs %s: %w", device, err)
		}
		req, err := unix.NewIfreq(name)
		if err == nil {
			req.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
			err = unix.IoctlIfreq(fd, unix.TUNSETIFF, req)
		}
		if err != nil {
			_ = unix.Close(fd)
			return fmt.Errorf("interface %s: %w", name, err)
		}
		file = os.NewFile(uintptr(fd), device)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if _, err := n.up(name, netip.Addr{}); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}
