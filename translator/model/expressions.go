package model

import "math"

// Expressions counts regular expressions that Envoy compiles.
type Expressions struct {
	Number uint32
	Size   uint32 // instructions of their compiled programs
}

// Add returns the saturating sum.
func (e Expressions) Add(o Expressions) Expressions {
	return Expressions{sum(e.Number, o.Number), sum(e.Size, o.Size)}
}

// Times returns n times e, saturating.
func (e Expressions) Times(n int) Expressions {
	times := func(v uint32) uint32 { return uint32(min(uint64(v)*uint64(n), math.MaxUint32)) }
	return Expressions{times(e.Number), times(e.Size)}
}

func sum(a, b uint32) uint32 { return uint32(min(uint64(a)+uint64(b), math.MaxUint32)) }

// Within reports whether both fields of e are at most o's.
func (e Expressions) Within(o Expressions) bool { return e.Number <= o.Number && e.Size <= o.Size }

// IsZero reports whether there are no expressions.
func (e Expressions) IsZero() bool { return e.Number == 0 }

// Overrun is a rule whose regular expressions exceed a Gateway's budget. Requests that the rule
// might match get 500.
type Overrun struct {
	Gateway string // "namespace/name"
	Route   string // store.TargetKey of the route
	Rule    int    // its Rule.Index
	Budget  string // the budget, in words for messages
}
