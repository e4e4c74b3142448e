package engines

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"time"
)

// busy is the share of a core from which an engine that gives no answer works. A server whose
// threads are all taken by long requests answers late, but it computes.
const busy = 0.05

// silence is how long a ready engine has given no answer.
type silence struct {
	checks int           // in a row, without an answer
	cpu    time.Duration // that its processes had used after the last one
	at     time.Time     // of that reading; zero: none
}

// silences checks a ready engine until a check gets no answer, or the first answer after silence.
// Checks are counted, not the time between them: a supervisor that was frozen itself must not
// count that time.
func silences(
	ctx context.Context, url string, now silence, t timings, cpu func() (time.Duration, bool),
) <-chan silence {
	news := make(chan silence, 1)
	go func() {
		for {
			if now.checks == 0 && !pause(ctx, t.health/2+rand.N(t.health)) { // not all engines at once
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

// next counts a check. The first one without an answer has no reading of the CPU time before it.
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

// answers reports whether the URL gives an answer of any status in time.
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

// silent publishes that a ready engine gives no answer, or answers again. After a longer time it
// ends the engine, unless none would be started.
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
