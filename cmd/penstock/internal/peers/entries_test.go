package peers

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/penstock-project/penstock/multicluster/channel"
	"github.com/penstock-project/penstock/picker/accesslog"
)

func TestAccessLog_EntryReachesTheProcessThatPicked(t *testing.T) {
	listeners := make([]net.Listener, 2)
	var addresses []string
	for i := range listeners {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		listeners[i], addresses = l, append(addresses, l.Addr().String())
	}
	received := make(chan accesslog.Entry, 1000)
	var all []*Entries
	for i, l := range listeners {
		c := channel.New(channel.Config{Peers: addresses})
		log := func(e accesslog.Entry) { t.Errorf("%v came back, want none at its publisher", e) }
		if i == 1 {
			log = func(e accesslog.Entry) { received <- e }
		}
		e := NewEntries(c, log)
		all = append(all, e)
		s := grpc.NewServer()
		c.Register(s)
		go func() { _ = s.Serve(l) }()
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{}, 2)
		for _, run := range []func(context.Context) error{c.Run, e.Run} {
			go func() {
				_ = run(ctx)
				done <- struct{}{}
			}()
		}
		t.Cleanup(func() {
			cancel()
			s.Stop()
			<-done
			<-done
		})
	}
	for i := range 3 {
		want := accesslog.Entry{Lease: fmt.Sprint("other.", i), Open: i == 1, Served: "10.0.0.1:80", Status: 200,
			FirstByte: time.Duration(i)}
		all[0].Add(want)
		select {
		case got := <-received:
			if got != want {
				t.Errorf("received %v, want %v", got, want)
			}
		case <-time.After(20 * time.Second):
			t.Fatal("never received")
		}
	}
}
