package probe

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
)

const (
	// signPause is the time between the starts of two health checks. A picker is silent after
	// signMisses pauses in a row without an answer: 2 to 2.5 s after it froze. If this process
	// itself was suspended, the whole time counts as one pause.
	signPause   = 500 * time.Millisecond
	signTimeout = 3 * time.Second
	signMisses  = 5
)

const silentReason = "it accepts connections and does not answer"

type sign int

const (
	serves sign = iota
	standsBy
	silent
	// frozen means that the picker has been silent for less than Config.LostFor.
	frozen
)

func (p *Prober) followSigns(ctx context.Context, at address, conn *grpc.ClientConn, results chan<- result) {
	last := serves
	send := func(next sign) {
		if next == last {
			return
		}
		last = next
		select {
		case results <- result{address: at, sign: &next}:
		case <-ctx.Done():
		}
	}
	defer send(serves) // without the connection, no sign counts
	connected, lost := context.WithCancel(ctx)
	defer lost()
	go func() { // end the checks with the connection: a new check would reconnect, and hide the loss
		defer lost()
		conn.WaitForStateChange(connected, connectivity.Ready)
	}()
	const most = int(signTimeout / signPause)
	answers, slots := make(chan sign, most), make(chan struct{}, most)
	tick := time.NewTicker(signPause)
	defer tick.Stop()
	misses, since := 0, time.Time{}
	for {
		select {
		case slots <- struct{}{}:
			go func() {
				defer func() { <-slots }()
				if found, ok := shows(connected, conn); ok && connected.Err() == nil {
					answers <- found
				}
			}()
		default: // the maximum number of checks still wait
		}
	waiting:
		for {
			select {
			case <-connected.Done():
				return
			case found := <-answers:
				misses = 0
				send(found)
			case <-tick.C:
				break waiting
			}
		}
		if misses++; misses == signMisses {
			since = time.Now()
		}
		switch {
		case misses < signMisses:
		case time.Since(since) < p.cfg.LostFor:
			send(frozen)
		default:
			send(silent)
		}
	}
}

// Any answer, even an error, is a sign that the picker runs.
func shows(ctx context.Context, conn *grpc.ClientConn) (found sign, answers bool) {
	ctx, cancel := context.WithTimeout(ctx, signTimeout)
	defer cancel()
	r, err := healthv1.NewHealthClient(conn).Check(ctx, &healthv1.HealthCheckRequest{Service: ServiceName})
	if err != nil && ctx.Err() != nil {
		return serves, false
	}
	if r.GetStatus() == healthv1.HealthCheckResponse_NOT_SERVING {
		return standsBy, true
	}
	return serves, true
}

func (t *target) frozen() (some bool) {
	for addr := range t.stop {
		if t.signs[addr] == serves && t.down[addr] == "" {
			return false
		}
		some = some || t.signs[addr] == frozen
	}
	return some
}

func (s sign) reason() string {
	if s == silent || s == frozen {
		return silentReason
	}
	return ""
}
