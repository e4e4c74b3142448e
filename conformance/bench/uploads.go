package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"time"

	"github.com/penstock-project/penstock/conformance/promises/attacks"
)

const uploadsRequests = 3000

type uploaded struct {
	*gateway
	client http.Client
	times  []time.Duration
	failed int
}

func measureUploads(ctx context.Context, c config, out report) error {
	server := httptest.NewServer(http.HandlerFunc(uploadsServer))
	defer server.Close()
	attacked, calm := &uploaded{}, &uploaded{}
	for _, u := range []*uploaded{attacked, calm} {
		if err := u.start(ctx, c, server.Listener.Addr().(*net.TCPAddr).Port); err != nil {
			return err
		}
		defer u.close()
	}
	for range uploadsRequests / 10 {
		attacked.request(ctx)
		calm.request(ctx)
	}
	calm.times = nil
	stalled := make(chan error, 1)
	var uploads *attacks.Uploads
	go func() {
		var err error
		uploads, err = attacks.Stall(ctx, fmt.Sprintf("127.0.0.1:%d", attacked.port), "/large", 200, 32<<20)
		stalled <- err
	}()
	for sending := true; sending; {
		attacked.request(ctx)
		select {
		case err := <-stalled:
			if err != nil {
				return err
			}
			sending = false
		default:
		}
	}
	defer uploads.Close()
	attacked.times = nil
	for range uploadsRequests {
		attacked.request(ctx)
		calm.request(ctx)
	}
	if len(attacked.times) == 0 || len(calm.times) == 0 {
		return errors.New("all requests failed")
	}
	with, without := percentile(attacked.times, 99), percentile(calm.times, 99)
	out("attack_uploads", "", float64(with)/float64(without))
	out("attack_uploads", "with", milliseconds(with))
	out("attack_uploads", "failed", float64(attacked.failed))
	return nil
}

func (u *uploaded) start(ctx context.Context, c config, server int) (err error) {
	objects := routeObject("large", "{path: {value: /large}, headers: [{name: X-Gateway-Model-Name, value: m}]}") +
		poolObjects("large", []int{server}) + routeObject("other", byPath("other")) +
		poolObjects("other", []int{server})
	if u.gateway, err = startGateway(c, objects, "--concurrency", "2"); err != nil {
		return err
	}
	if err := u.serves(ctx, func() error {
		return errors.Join(u.post(ctx, "other"), u.post(ctx, "large"))
	}); err != nil {
		u.close()
		return err
	}
	return nil
}

func (u *uploaded) request(ctx context.Context) {
	begin := time.Now()
	if err := u.post(ctx, "other"); err != nil {
		if u.failed++; u.failed <= 3 {
			fmt.Fprintln(os.Stderr, "bench: a request of the other route:", err)
		}
		return
	}
	u.times = append(u.times, time.Since(begin))
}

func (u *uploaded) post(ctx context.Context, path string) error {
	_, err := post(ctx, &u.client, u.url+path, `{"model":"m"}`)
	return err
}

func uploadsServer(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/metrics" {
		_, _ = fmt.Fprint(w, "vllm:num_requests_waiting 0\nvllm:num_requests_running 0\nvllm:kv_cache_usage_perc 0\n")
		return
	}
	_, _ = io.Copy(io.Discard, r.Body)
	_, _ = io.WriteString(w, `{"object":"list","data":[]}`)
}
