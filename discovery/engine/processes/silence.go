package processes

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"time"
)

// busy is the share of a core from which an engine without answers is busy, not hung: all its
// threads may be taken by long requests.
const busy = 0.05

type silence struct {
	checks int           // unanswered checks in a row
	cpu    time.Duration // CPU time of its processes after the last check
	at     time.Time     // time of that reading; zero: none
}

// silences checks a ready engine, and sends one silence: after an unanswered check, or after the
// first answer that follows one. It counts checks, not time, because the supervisor itself may be
// frozen.
func silences(
	ctx context.Context, url string, now silence, t timings, cpu func() (time.Duration, bool),
) <-chan silence {
	news := make(chan silence, 1)
	go func() {
		for {
			if now.checks == 0 && !pause(ctx, t.health/2+rand.N(t.health)) { // random, to spread the checks of engines
				return
			}
			began := time.Now()
			answered := answers(ctx, url, t.answer)
			if answered && now.checks == 0 {
				continue
			}
			if !answered && !pause(ctx, time.Until(began.Add(t.answer))) || ctx.Err() != nil {
				return
			}
			if now.next(answered, cpu); now.checks > 0 || answered {
				news <- now
				return
			}
		}
	}()
	return news
}

// next counts a check. The first unanswered check has no earlier CPU time to compare.
func (s *silence) next(answered bool, cpu func() (time.Duration, bool)) {
	if answered {
		*s = silence{}
		return
	}
	used, ok := cpu()
	if !ok {
		*s = silence{}
		return
	}
	read := time.Now()
	if rest := used - s.cpu; !s.at.IsZero() && (rest < 0 || rest.Seconds() > busy*read.Sub(s.at).Seconds()) {
		s.checks = 0
	}
	s.checks++
	s.cpu, s.at = used, read
}

func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

func answers(ctx context.Context, url string, within time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return false
	}
	response, err := (&http.Client{Transport: prober.Transport, CheckRedirect: prober.CheckRedirect}).Do(request)
	if err != nil {
		return false
	}
	_ = response.Body.Close()
	return true
}

// silent reports that a ready engine gives no answer, or answers again. After t.restart checks, it
// restarts a wanted engine without Keep.
func (u *unit) silent(ctx context.Context, p *Process, now silence) {
	before := u.silence.checks >= u.s.t.hung
	u.silence = now
	switch {
	case now.checks >= u.s.t.restart && p != nil && !p.Keep:
		reason := noAnswer(u.rec.Ready, time.Duration(now.checks)*u.s.t.answer)
		if _, ok := u.stop(ctx); ok {
			u.over(p, Waiting, reason)
		}
	case now.checks >= u.s.t.hung:
		reason := noAnswer(u.rec.Ready, time.Duration(u.s.t.hung)*u.s.t.answer)
		if !before {
			if Notable(u.rec.Failures + 1) {
				u.s.log.Warn("engine gives no answer", "engine", u.rec.Name, "reason", reason)
			}
			u.set(func(st *State) { st.Phase, st.Since, st.Reason = Unresponsive, time.Now(), reason })
		}
	case before:
		u.set(func(st *State) { st.Phase, st.Since, st.Reason = Running, time.Now(), "" })
	}
}

func noAnswer(ready string, lasted time.Duration) string {
	path := ready
	if u, err := url.Parse(ready); err == nil {
		path = u.Path
	}
	return fmt.Sprintf("no answer at %s for %v, and no CPU time used", path, lasted)
}
