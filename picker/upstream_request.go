package picker

import (
	"strconv"
	"time"

	"google.golang.org/grpc/mem"

	"github.com/penstock-project/penstock/picker/extproc"
	"github.com/penstock-project/penstock/picker/schedule"
)

type upstreamRequest struct {
	extproc.Tracker
	metrics   *upstreamMetrics
	labels    []string
	predictor []string
	objective schedule.Objective
	started   time.Time
	begun     time.Time
	last      time.Time
	streaming bool
	took      time.Duration
	bytes     int
	usage     usageReader
}

func (u *upstreamRequest) Response(r extproc.Response) extproc.Header {
	defer u.spent(time.Now())
	if r.Status >= 400 {
		u.metrics.errors.inc(append(u.labels, strconv.Itoa(r.Status))...)
	}
	return u.Tracker.Response(r)
}

func (u *upstreamRequest) Begun() {
	u.begun = time.Now()
	first := u.begun.Sub(u.started).Seconds()
	u.metrics.firstToken.observe(first, append(u.labels, strconv.FormatBool(u.streaming))...)
	if u.streaming && u.objective.TTFT > 0 && first > u.objective.TTFT {
		u.missed("ttft")
	}
	u.Tracker.Begun()
}

func (u *upstreamRequest) Piece(body mem.BufferSlice) {
	now := time.Now()
	defer u.spent(now)
	if u.streaming && !u.last.IsZero() {
		u.metrics.between.observe(now.Sub(u.last).Seconds(), u.labels...)
	}
	u.last = now
	u.bytes += body.Len()
	for _, b := range body {
		u.usage.write(b.ReadOnlyData())
	}
}

func (u *upstreamRequest) End() {
	m, took := u.metrics, time.Since(u.started)
	m.seconds.observe(took.Seconds(), u.labels...)
	m.running.add(-1, u.labels...)
	m.responding.observe(u.took.Seconds())
	if u.bytes > 0 {
		m.answered.observe(float64(u.bytes), u.labels...)
	}
	if tokens := u.usage.number(usageOutput); tokens > 0 {
		m.output.observe(float64(tokens), u.labels...)
		m.perOutput.observe(took.Seconds()/float64(tokens), u.labels...)
		if u.streaming && tokens > 1 && !u.begun.IsZero() {
			each := u.last.Sub(u.begun).Seconds() / float64(tokens-1)
			m.perToken.observe(each, u.labels...)
			if u.objective.TPOT > 0 && each > u.objective.TPOT {
				u.missed("tpot")
			}
		}
		m.cached.observe(float64(u.usage.number(usageCached)), u.labels...)
	}
	u.Tracker.End()
}

func (u *upstreamRequest) spent(since time.Time) { u.took += time.Since(since) }

func (u *upstreamRequest) missed(what string) {
	if u.predictor != nil {
		u.metrics.late.inc(append(u.predictor[:4:4], what)...)
	}
}
