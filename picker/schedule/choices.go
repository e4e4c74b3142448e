package schedule

import "math"

// Choices by scores. Suspect endpoints come after all others, whatever the choice.

// maxScore is max-score-picker: the highest scores; equal ones by lot.
func maxScore(c []Candidate, n int, random func() uint64) []Candidate {
	for i := range c {
		c[i].Cost = -c[i].Score
	}
	return best(c, n, random())
}

// uniform is random-picker.
func uniform(c []Candidate, n int, random func() uint64) []Candidate {
	for i := range c {
		c[i].Cost = 0
	}
	return best(c, n, random())
}

// weightedRandom is weighted-random-picker: draws without replacement, each with the scores as
// weights; by lot if all are 0. A draw is the order of u^(1/score) for a uniform u, which is that
// of -ln(u)/score from the least (Efraimidis and Spirakis).
func weightedRandom(c []Candidate, n int, random func() uint64) []Candidate {
	draw := random()
	for i := range c {
		if c[i].Score <= 0 {
			c[i].Cost = math.Inf(1)
			continue
		}
		u := float64(mix(draw^uint64(c[i].lot)<<32)>>11+1) / (1 << 53)
		c[i].Cost = -math.Log(u) / c[i].Score
	}
	return best(c, n, draw)
}

// powerOfTwo is power-of-two-picker: the higher score of two candidates that are drawn, n times
// without replacement.
func powerOfTwo(c []Candidate, n int, random func() uint64) []Candidate {
	free := 0 // candidates that are not the last resort, at the front
	for i := range c {
		if c[i].Cost = -c[i].Score; !c[i].last {
			c[free], c[i] = c[i], c[free]
			free++
		}
	}
	for k := range n {
		rest := c[k:]
		if k < free {
			rest = c[k:free]
		}
		draw := random()
		a := int(uint64(uint32(draw)) * uint64(len(rest)) >> 32)
		if len(rest) > 1 {
			b := int((draw >> 32) * uint64(len(rest)-1) >> 32)
			if b >= a {
				b++
			}
			if k == 0 {
				rest[a].Drawn, rest[b].Drawn = true, true
			}
			if better(&rest[b], &rest[a], draw) {
				a = b
			}
		}
		rest[0], rest[a] = rest[a], rest[0]
	}
	return c[:n]
}
