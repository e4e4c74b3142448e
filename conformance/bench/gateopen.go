package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	openChanges = 1000
	openRoutes  = 8
	openHosts   = 3
	openRestart = 83 // changes between restarts of a control plane
	openFresh   = 131
)

// opening gates all routes, except route 0, which is opened and gated alternately.
type opening struct {
	*gates
	random *rand.Rand
	ports  []int
	whole  bool
	own    [openRoutes]bool // the route has a policy of its own
	pool   bool
	models [openRoutes + 1]bool
	host   [openRoutes]int
	opened bool

	closed                 atomic.Bool // route 0 is gated, and has denied a request since
	through, asked, served atomic.Int64
}

func (o *opening) objects() string {
	text := poolObjects("chat", o.ports)
	for i := range openRoutes {
		text += gateRoute(fmt.Sprint("r", i), hostOf(o.host[i]), byPath(fmt.Sprint("r", i)))
		if o.own[i] {
			text += accessPolicy(fmt.Sprint("route-", i), fmt.Sprintf("{kind: HTTPRoute, name: r%d}", i),
				fmt.Sprintf(", byModel: %t", o.models[i]))
		}
	}
	if o.whole {
		more := fmt.Sprintf(", byModel: %t", o.models[openRoutes])
		if o.opened {
			more += ", except: [{name: r0}]"
		}
		text += accessPolicy("whole", wholeGateway, more)
	}
	if o.pool {
		text += accessPolicy("pool", "{group: inference.networking.k8s.io, kind: InferencePool, name: chat}", "")
	}
	return text
}

func hostOf(i int) string { return fmt.Sprintf("h%d.example", i) }

func measureGateOpen(ctx context.Context, c config, out report) error {
	seed, err := seedOf("GATE_SEED")
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "GATE_SEED=%d\n", seed)
	_, ports, stop, err := startServers(c, 2)
	if err != nil {
		return err
	}
	defer stop()
	key, hash := newKey()
	o := &opening{random: rand.New(rand.NewPCG(seed, 1)), ports: ports, whole: true}
	first := gateRoute("chat", gatedHost, byPath("v1")) + keyObject("valid", hash, "")
	if o.gates, err = startGates(ctx, c, 2, first+o.objects()); err != nil {
		return err
	}
	defer o.close()
	if err := o.write("all.yaml", fmt.Sprintf(gatewayObject, o.port)+first); err != nil {
		return err
	}
	if err := o.write("changing.yaml", o.objects()); err != nil {
		return err
	}
	sending, end := context.WithCancel(ctx)
	var clients sync.WaitGroup
	for i := range openRoutes {
		clients.Go(func() { o.keyless(sending, i) })
	}
	clients.Go(func() { o.keyed(sending, key) })
	for step := 1; step <= openChanges && err == nil; step++ {
		err = o.change(ctx, step)
	}
	end()
	clients.Wait()
	if err == nil && o.served.Load() == 0 {
		err = errors.New("no request with a key was answered, so the figure shows nothing")
	}
	if err != nil {
		return err
	}
	out("gate_open", "", float64(o.through.Load()))
	out("gate_open", "of", float64(o.asked.Load()))
	out("gate_open", "served", float64(o.served.Load()))
	return nil
}

func (o *opening) change(ctx context.Context, step int) error {
	switch {
	case step%openRestart == 0:
		return o.restart(ctx, step/openRestart)
	case step%openFresh == 0:
		old := o.envoys[len(o.envoys)-1]
		if err := o.attach(); err != nil {
			return err
		}
		if err := o.inSync(ctx); err != nil {
			return err
		}
		_ = old.Stop(10 * time.Second) // after 10 s, the process is killed
		return nil
	}
	i := o.random.IntN(openRoutes)
	switch kind := o.random.IntN(6); kind {
	case 0:
		o.own[i] = !o.own[i]
	case 1: // one write replaces the routes' policies by the Gateway's, or back
		o.whole = !o.whole
		for n := range o.own {
			o.own[n] = !o.whole
		}
	case 2:
		n := o.random.IntN(openRoutes + 1)
		o.models[n] = !o.models[n]
	case 3:
		o.host[i] = o.random.IntN(openHosts)
	case 4:
		o.pool = !o.pool
	default:
		return o.flip(ctx)
	}
	if !o.whole { // then each route needs a policy, except an open route 0
		for n := range o.own {
			o.own[n] = o.own[n] || n > 0 || !o.opened
		}
	}
	if o.own[0] || o.pool {
		o.opened = false
	}
	o.closed.Store(o.closed.Load() && !o.opened)
	if err := o.write("changing.yaml", o.objects()); err != nil {
		return err
	}
	return pause(ctx, time.Duration(o.random.IntN(40))*time.Millisecond)
}

// flip opens route 0, or gates it and waits until it denies a request.
func (o *opening) flip(ctx context.Context) error {
	if o.opened = !o.opened; o.opened {
		o.closed.Store(false)
		o.own[0], o.pool = false, false
	} else if !o.whole {
		o.own[0] = true
	}
	if err := o.write("changing.yaml", o.objects()); err != nil {
		return err
	}
	want := http.StatusUnauthorized
	if o.opened {
		want = http.StatusOK
	}
	err := o.answers(ctx, hostOf(o.host[0]), "r0/", "", want)
	o.closed.Store(err == nil && !o.opened)
	return err
}

func (o *opening) restart(ctx context.Context, turn int) error {
	i := turn % len(o.planes)
	if turn/len(o.planes)%2 == 0 {
		o.planes[i].Signal(syscall.SIGKILL)
	}
	o.planes[i].stop()
	again, err := o.starts[i]()
	if err != nil {
		return err
	}
	o.planes[i] = again
	return o.inSync(ctx)
}

func (o *opening) keyless(ctx context.Context, route int) {
	for n := 0; pause(ctx, 5*time.Millisecond) == nil; n++ {
		gated := route > 0 || o.closed.Load()
		status, _, err := o.ask(ctx, hostOf(n%openHosts), fmt.Sprintf("r%d/", route), "")
		o.asked.Add(1)
		if passed := err == nil && status < http.StatusMultipleChoices; !passed || !gated {
			continue
		}
		if (route > 0 || o.closed.Load()) && o.through.Add(1) <= 5 {
			fmt.Fprintf(os.Stderr, "bench: route %d let in a request without a key: %d\n", route, status)
		}
	}
}

func (o *opening) keyed(ctx context.Context, key string) {
	for n := 0; pause(ctx, 20*time.Millisecond) == nil; n++ {
		path := fmt.Sprintf("r%d/", n%openRoutes)
		if status, _, err := o.ask(ctx, hostOf(n/openRoutes%openHosts), path, key); err == nil &&
			status == http.StatusOK {
			o.served.Add(1)
		}
	}
}
