package probe

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
)

const (
	// signPause is the pause between the starts of two checks, and signTimeout how long each may
	// take. A picker is silent after signMisses pauses in a row without an answer to any of them: 2
	// to 2.5 s after it has frozen. One that answers late, or a pause of this process, is not
	// silent: answers still arrive, and a pause counts once, however long it is.
	signPause   = 500 * time.Millisecond
	signTimeout = 3 * time.Second
	signMisses  = 5
)

// silentReason is why a picker that is silent does not serve.
const silentReason = "it accepts connections and does not answer"

// sign is what an address with a connection shows of itself.
type sign int

const (
	serves sign = iota
	// standsBy: it answers that it does not serve. Another picker is its leader.
	standsBy
	// silent: it accepts what it is sent, and answers nothing.
	silent
	// frozen is silent for less than Config.LostFor.
	frozen
)

// followSigns reports what an address shows of itself, until its connection is lost.
func (p *Prober) followSigns(ctx context.Context, at address, conn *grpc.ClientConn, results chan<- result) {
	last := serves
	send := func(is sign) {
		if is == last {
			return
		}
		last = is
		select {
		case results <- result{address: at, sign: &is}:
		case <-ctx.Done():
		}
	}
	defer send(serves) // without a connection, what is known is why there is none
	connected, lost := context.WithCancel(ctx)
	defer lost()
	go func() { // a check would connect again, and hide that the connection was lost
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
				if is, ok := shows(connected, conn); ok && connected.Err() == nil {
					answers <- is
				}
			}()
		default: // all checks wait
		}
	waiting:
		for {
			select {
			case <-connected.Done():
				return
			case is := <-answers:
				misses = 0
				send(is)
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

// shows asks a picker for a sign of life: whether its service is healthy. Any answer is one.
func shows(ctx context.Context, conn *grpc.ClientConn) (is sign, answers bool) {
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

// frozen reports whether a picker has frozen a moment ago: some address has, and no other serves.
func (t *target) frozen() (some bool) {
	for addr := range t.stop {
		if t.signs[addr] == serves && t.down[addr] == "" {
			return false
		}
		some = some || t.signs[addr] == frozen
	}
	return some
}

// reason is why an address does not serve; "" if it may.
func (s sign) reason() string {
	if s == silent || s == frozen {
		return silentReason
	}
	return ""
}
