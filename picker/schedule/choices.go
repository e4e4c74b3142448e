package schedule

import "math"

func maxScore(c []Candidate, n int, random func() uint64) []Candidate {
	for i := range c {
		c[i].Cost = -c[i].Score
	}
	return best(c, n, random())
}

func uniform(c []Candidate, n int, random func() uint64) []Candidate {
	for i := range c {
		c[i].Cost = 0
	}
	return best(c, n, random())
}

// weightedRandom implements llm-d's weighted-random-picker: it draws n candidates without
// replacement, with their scores as weights (Efraimidis and Spirakis). If all scores are 0, the
// weights are equal.
func weightedRandom(c []Candidate, n int, random func() uint64) []Candidate {
	draw := random()
	for i := range c {
		if c[i].Score <= 0 {
			c[i].Cost = math.Inf(1)
			continue
		}
		u := float64(Mix(draw^uint64(c[i].lot)<<32)>>11+1) / (1 << 53)
		c[i].Cost = -math.Log(u) / c[i].Score
	}
	return best(c, n, draw)
}

// powerOfTwo implements llm-d's power-of-two-picker: n times, it takes the better of two random
// candidates.
func powerOfTwo(c []Candidate, n int, random func() uint64) []Candidate {
	free := 0 // c[:free] are not suspect
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
