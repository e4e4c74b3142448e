package filesystem

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	// Timeout bounds the time of one operation, because a network file system may not respond.
	Timeout = 3 * time.Second
	// StuckAfter is how long an operation may hang before Stuck reports its path.
	StuckAfter = 30 * time.Second
	// MaxFile is the maximum size in bytes of a file that a flag names.
	MaxFile = 4 << 20
	maxHung = 64
)

var (
	ErrHung      = fmt.Errorf("its file system does not answer within %v", Timeout)
	ErrIrregular = errors.New("it is not an ordinary file, and may never end")
)

// TooLarge is the error for a file that is larger than this number of bytes.
type TooLarge int

func (e TooLarge) Error() string {
	if e < 1<<20 {
		return fmt.Sprintf("it is larger than %d bytes", int(e))
	}
	return fmt.Sprintf("it is larger than %d MiB", int(e)>>20)
}

// Disk runs file operations with a timeout, and records operations that hang. The zero Disk is
// ready for use, also concurrently. A nil Disk records nothing, and is for short-lived commands.
type Disk struct {
	mu   sync.Mutex
	hung map[string]time.Time // the path of each hanging operation -> when the operation began
}

// Do runs an operation on a path. It returns at the latest after Timeout, or when ctx ends.
func Do[T any](ctx context.Context, d *Disk, path string, operation func() (T, error)) (out T, err error) {
	if d == nil {
		d = &Disk{}
	}
	if d.isHung(path) {
		return out, ErrHung
	}
	type result struct {
		out T
		err error
	}
	began, returned := time.Now(), make(chan result, 1)
	go func() { // ends with the operation; at most maxHung goroutines remain
		out, err := operation()
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.hung, path)
		returned <- result{out, err}
	}()
	timer := time.NewTimer(Timeout)
	defer timer.Stop()
	select {
	case r := <-returned:
		return r.out, r.err
	case <-ctx.Done():
		err = ctx.Err()
	case <-timer.C:
		err = ErrHung
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	select {
	case r := <-returned:
		return r.out, r.err
	default:
		if d.hung == nil {
			d.hung = map[string]time.Time{}
		}
		d.hung[path] = began
		return out, err
	}
}

func (d *Disk) isHung(path string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.hung) >= maxHung {
		return true
	}
	for at := range d.hung {
		if Within(at, path) {
			return true
		}
	}
	return false
}

// Within reports whether path is dir or below it.
func Within(dir, path string) bool {
	const separator = string(filepath.Separator)
	return path == dir || dir == "." || strings.HasPrefix(path, strings.TrimSuffix(dir, separator)+separator)
}

// Stuck returns the path of an operation that has hung for longer than StuckAfter, or "".
func (d *Disk) Stuck() (path string) {
	if d == nil {
		return ""
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for at, began := range d.hung {
		if time.Since(began) > StuckAfter && (path == "" || at < path) {
			path = at
		}
	}
	return path
}

// StuckMessage returns the line of /healthz for a path from Stuck.
func StuckMessage(path string) string {
	return path +
		" has been read for half a minute, and its file system does not answer; what was read before stays in use: " +
		"repair the mount, and restart this process"
}

// Stat is os.Stat, bounded by Timeout.
func (d *Disk) Stat(path string) (fs.FileInfo, error) {
	info, err := Do(context.Background(), d, path, func() (fs.FileInfo, error) { return os.Stat(path) })
	return info, naming(path, err)
}

// Read returns the content of a file that has at most MaxFile bytes. Errors name the path.
func (d *Disk) Read(path string) ([]byte, error) {
	read := func() ([]byte, error) { return ReadRegular(path, MaxFile) }
	raw, err := Do(context.Background(), d, path, read)
	return raw, naming(path, err)
}

// Create opens a file for writing. It truncates an ordinary file, or creates the file with mode
// 0600. It also opens a device, or a FIFO that another process reads.
func (d *Disk) Create(path string) (*os.File, error) {
	const flags = os.O_CREATE | os.O_WRONLY | os.O_TRUNC | syscall.O_NONBLOCK
	f, err := Do(context.Background(), d, path, func() (*os.File, error) { return os.OpenFile(path, flags, 0o600) })
	return f, naming(path, err)
}

// KeyPair reads a certificate with its chain, and its private key.
func (d *Disk) KeyPair(cert, key string) (*tls.Certificate, error) {
	certPEM, err := d.Read(cert)
	if err != nil {
		return nil, err
	}
	keyPEM, err := d.Read(key)
	if err != nil {
		return nil, err
	}
	c, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, fmt.Errorf("%s, %s: %w", cert, key, err)
	}
	return &c, nil
}

func naming(path string, err error) error {
	if err == nil || errors.As(err, new(*fs.PathError)) {
		return err
	}
	return fmt.Errorf("%s: %w", path, err)
}

// ReadRegular reads an ordinary file of at most `most` bytes. It rejects a FIFO, because reading a
// FIFO waits for a writer. Callers run ReadRegular with Do, because an unresponsive file system
// blocks it.
func ReadRegular(path string, most int) ([]byte, error) {
	fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	f := os.NewFile(uintptr(fd), path)
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, ErrIrregular
	}
	out := make([]byte, 0, min(info.Size(), int64(most))+512)
	for {
		if len(out) > most {
			return nil, TooLarge(most)
		}
		if len(out) == cap(out) {
			out = slices.Grow(out, len(out))
		}
		n, err := syscall.Read(fd, out[len(out):cap(out)])
		switch {
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EAGAIN):
			return nil, ErrIrregular
		case err != nil:
			return nil, &fs.PathError{Op: "read", Path: path, Err: err}
		case n == 0:
			return out, nil
		default:
			out = out[:len(out)+n]
		}
	}
}
