package soak

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// slope fits a line to values. It returns the line's slope and its standard error, both in % of the
// mean per hour. The error allows for correlation of successive deviations.
func slope(hours, values []float64) (percent, deviation float64) {
	n := float64(len(hours))
	var meanX, meanY float64
	for i := range hours {
		meanX, meanY = meanX+hours[i]/n, meanY+values[i]/n
	}
	var xx, xy, rest float64
	for i := range hours {
		xx += (hours[i] - meanX) * (hours[i] - meanX)
		xy += (hours[i] - meanX) * (values[i] - meanY)
	}
	if xx == 0 || meanY == 0 || n < 3 {
		return 0, math.Inf(1)
	}
	b := xy / xx
	var last, together float64
	for i := range hours {
		d := values[i] - meanY - b*(hours[i]-meanX)
		rest += d * d
		together += d * last
		last = d
	}
	alike := 0.0
	if rest > 0 {
		alike = min(max(0, together/rest), 0.99)
	}
	return 100 * b / meanY, 100 * math.Sqrt(rest/(n-2)/xx*(1+alike)/(1-alike)) / meanY
}

// apart removes the linear dependence on sizes from values, and keeps the mean. If apart is also
// applied to the times, a linear fit gives the slope of a fit by time and size (Frisch and Waugh,
// Econometrica 1, 1933).
func apart(values, sizes []float64) []float64 {
	if len(sizes) != len(values) || len(values) == 0 {
		return values
	}
	n := float64(len(values))
	var meanX, meanY float64
	for i := range values {
		meanX, meanY = meanX+sizes[i]/n, meanY+values[i]/n
	}
	var xx, xy float64
	for i := range values {
		xx += (sizes[i] - meanX) * (sizes[i] - meanX)
		xy += (sizes[i] - meanX) * (values[i] - meanY)
	}
	if xx == 0 {
		return values
	}
	out := make([]float64, len(values))
	for i := range values {
		out[i] = values[i] - xy/xx*(sizes[i]-meanX)
	}
	return out
}

func (s *Samples) apart(values []float64) []float64 {
	return apart(apart(values, s.size), apart(s.endpoints, s.size))
}

// These are the limits of soak_slope, in % per hour.
const (
	maxLiveSlope = 2
	maxRSSSlope  = 10
)

// Slope is the growth of one figure of a process.
type Slope struct {
	Name               string  // "heap", "goroutines" or "rss"
	Percent, Deviation float64 // slope of a linear fit and its standard error, in % of the mean per hour
	Limit              int     // maximum of Percent
}

func (s Slope) String() string {
	return fmt.Sprintf("%s grows by %.1f %% an hour (standard error %.1f), limit %d", s.Name, s.Percent, s.Deviation,
		s.Limit)
}

// Shortest is the shortest soak whose slopes are judged.
const Shortest = 30 * time.Minute

// judged is the shortest time of samples for judged slopes, in hours. It is less than half of
// Shortest, because samples begin some time after the second half of a soak.
const judged = 14.0 / 60

// Judged describes how slopes are judged, or the reason why not.
func (s *Samples) Judged() string {
	if s.hours() < judged {
		return fmt.Sprintf(
			"slopes are not judged: samples of %.0f minutes show noise; a soak of %.0f minutes has enough",
			60*s.hours(), Shortest.Minutes())
	}
	return "a slope fails if it exceeds its limit by more than two standard errors"
}

// Growth returns the slopes. It returns an error if a slope exceeds its limit by more than two
// standard errors, unless the soak is too short.
func (s *Samples) Growth() (slopes []Slope, err error) {
	for _, x := range []struct {
		name   string
		values []float64
		limit  int
	}{{"heap", s.heap, maxLiveSlope}, {"goroutines", s.goroutines, maxLiveSlope}, {"rss", s.rss, maxRSSSlope}} {
		percent, deviation := slope(s.apart(s.at), s.apart(x.values))
		grown := Slope{x.name, percent, deviation, x.limit}
		slopes = append(slopes, grown)
		if s.hours() >= judged && percent-2*deviation > float64(x.limit) {
			err = errors.Join(err, errors.New(grown.String()))
		}
	}
	return slopes, err
}

func (s *Samples) hours() float64 {
	if len(s.at) == 0 {
		return 0
	}
	return s.at[len(s.at)-1] - s.at[0]
}
