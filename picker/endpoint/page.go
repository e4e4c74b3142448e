package endpoint

import (
	"bufio"
	"context"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/penstock-project/penstock/picker/socket"
)

// pageConn reads one metrics page over HTTP/1.1 without TLS, again and again. Its user does the
// reading and the writing. A net/http.Transport has two goroutines for each connection: with their
// wake-ups and what each request allocates, a page takes half again as much CPU, which with 20
// pages a second of each endpoint is a tenth of that of picks by headers.
type pageConn struct {
	invalid error // why the page has no valid URL
	address string
	request []byte
	conn    net.Conn    // nil if there is none
	stop    func() bool // has the end of the context no longer close it
	from    io.LimitedReader
	in      *bufio.Reader
}

// get is the request as http.ReadResponse needs it.
var get = &http.Request{Method: http.MethodGet}

func newPageConn(page string) *pageConn {
	u, err := url.Parse(page) // it admits no control characters
	if err != nil {
		return &pageConn{invalid: err}
	}
	return &pageConn{
		address: u.Host,
		request: []byte("GET " + u.RequestURI() + " HTTP/1.1\r\nHost: " + u.Host + "\r\nUser-Agent: penstock\r\n\r\n"),
	}
}

// read calls f with the response until a deadline. f reads the body up to its end, or returns an
// error.
func (c *pageConn) read(ctx context.Context, deadline time.Time, f func(*http.Response) error) error {
	if c.invalid != nil {
		return c.invalid
	}
	if err := ctx.Err(); err != nil { // the connection closes in a moment
		c.Close()
		return err
	}
	kept := c.conn != nil
	response, err := c.ask(ctx, deadline)
	if err != nil && kept && ctx.Err() == nil && time.Now().Before(deadline) {
		response, err = c.ask(ctx, deadline) // the server had closed the connection
	}
	if err != nil {
		return err
	}
	again := false
	defer func() {
		if !again {
			c.Close()
		}
	}()
	if err := f(response); err != nil {
		return err
	}
	again = !response.Close && c.in.Buffered() == 0
	return nil
}

// ask sends the request, on a new connection if there is none, and reads the head of the response.
// After an error there is no connection.
func (c *pageConn) ask(ctx context.Context, deadline time.Time) (*http.Response, error) {
	if c.conn == nil {
		conn, err := (&net.Dialer{Deadline: deadline}).DialContext(ctx, "tcp", c.address)
		if err != nil {
			return nil, err
		}
		conn = socket.Conn(conn)
		c.conn, c.from.R = conn, conn
		c.in = bufio.NewReader(&c.from)
		c.stop = context.AfterFunc(ctx, func() { _ = conn.Close() })
	}
	err := c.conn.SetDeadline(deadline)
	if err == nil {
		_, err = c.conn.Write(c.request)
	}
	var response *http.Response
	if err == nil {
		c.from.N = maxHeader
		response, err = http.ReadResponse(c.in, get)
		c.from.N = math.MaxInt64
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return response, nil
}

// Close closes the connection, if there is one.
func (c *pageConn) Close() {
	if c.conn != nil {
		c.stop()
		_ = c.conn.Close()
		c.conn, c.in, c.from.R, c.stop = nil, nil, nil, nil
	}
}
