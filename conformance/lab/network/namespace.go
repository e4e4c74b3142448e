//go:build linux

package network

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Namespace is a network namespace. It exists until Close was called and the last process inside
// has ended.
type Namespace struct {
	file *os.File
	link *netlink.Handle
}

// New creates a namespace that has only loopback and that forwards packets.
func New() (*Namespace, error) {
	type made struct {
		file *os.File
		err  error
	}
	done := make(chan made)
	go func() {
		// Not unlocked: the thread stays in the new namespace.
		runtime.LockOSThread()
		var m made
		if m.err = unix.Unshare(unix.CLONE_NEWNET); m.err == nil {
			m.err = settings()
		}
		if m.err == nil {
			m.file, m.err = os.Open(fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid()))
		}
		done <- m
	}()
	m := <-done
	if m.err != nil {
		return nil, fmt.Errorf("network namespace: %w", m.err)
	}
	return open(m.file)
}

func settings() error {
	for file, value := range map[string]string{
		"ipv4/ip_forward": "1",
		// Anyone may listen on ports below 1024: without root, a lab's processes are root only in
		// their own namespaces.
		"ipv4/ip_unprivileged_port_start": "0",
		// Accept replies of a Service on an interface that has no route to their source.
		"ipv4/conf/all/rp_filter":      "0",
		"ipv4/conf/default/rp_filter":  "0",
		"ipv6/conf/default/accept_dad": "0",
	} {
		if err := os.WriteFile("/proc/sys/net/"+file, []byte(value), 0); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

// Current returns the namespace of the calling process.
func Current() (*Namespace, error) {
	file, err := os.Open("/proc/self/ns/net")
	if err != nil {
		return nil, fmt.Errorf("network namespace: %w", err)
	}
	return open(file)
}

func open(file *os.File) (*Namespace, error) {
	h, err := netlink.NewHandleAt(netns.NsHandle(file.Fd()), unix.NETLINK_ROUTE)
	if err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("network namespace: %w", err)
	}
	n := &Namespace{file: file, link: h}
	lo, err := h.LinkByName("lo")
	if err == nil {
		err = h.LinkSetUp(lo)
	}
	if err != nil {
		n.Close()
		return nil, fmt.Errorf("loopback: %w", err)
	}
	return n, nil
}

// Set sets a kernel parameter of the namespace, such as net.core.somaxconn. A parameter outside of
// net. is an error.
func (n *Namespace) Set(name, value string) error {
	if !strings.HasPrefix(name, "net.") || strings.ContainsRune(name, '/') {
		return fmt.Errorf("sysctl %s: only parameters of the network (net.*) can be set for a pod", name)
	}
	return n.Do(func() error {
		if err := os.WriteFile("/proc/sys/"+strings.ReplaceAll(name, ".", "/"), []byte(value), 0); err != nil {
			return fmt.Errorf("sysctl %s: %w", name, err)
		}
		return nil
	})
}

// Close releases the namespace.
func (n *Namespace) Close() {
	n.link.Close()
	_ = n.file.Close()
}

// Do calls f on a thread inside the namespace. Processes that f starts are also inside; goroutines
// that f starts are not.
func (n *Namespace) Do(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		if err := unix.Setns(int(n.file.Fd()), unix.CLONE_NEWNET); err != nil {
			done <- fmt.Errorf("enter network namespace: %w", err)
			return
		}
		done <- f()
	}()
	return <-done
}

func (n *Namespace) up(name string, addr netip.Addr) (netlink.Link, error) {
	l, err := n.link.LinkByName(name)
	if err != nil {
		return nil, fmt.Errorf("interface %s: %w", name, err)
	}
	if addr.IsValid() {
		if err := n.link.AddrAdd(l, &netlink.Addr{IPNet: ipNet(netip.PrefixFrom(addr, 32))}); err != nil {
			return nil, fmt.Errorf("address %s of interface %s: %w", addr, name, err)
		}
	}
	if err := n.link.LinkSetUp(l); err != nil {
		return nil, fmt.Errorf("interface %s: %w", name, err)
	}
	return l, nil
}

func (n *Namespace) route(l netlink.Link, dst netip.Prefix, gateway, src netip.Addr) error {
	if err := n.link.RouteAdd(newRoute(l, dst, gateway, src)); err != nil {
		return fmt.Errorf("route to %s by %s: %w", dst, l.Attrs().Name, err)
	}
	return nil
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), 32)}
}
