package model

import "math"

// Expressions are the regular expressions that Envoy compiles for something.
type Expressions struct {
	Number uint32
	Size   uint32 // of their programs, in instructions
}

// Add is the sum, which does not wrap.
func (e Expressions) Add(o Expressions) Expressions {
	return Expressions{sum(e.Number, o.Number), sum(e.Size, o.Size)}
}

// Times is n times as many, which does not wrap.
func (e Expressions) Times(n int) Expressions {
	times := func(v uint32) uint32 { return uint32(min(uint64(v)*uint64(n), math.MaxUint32)) }
	return Expressions{times(e.Number), times(e.Size)}
}

func sum(a, b uint32) uint32 { return uint32(min(uint64(a)+uint64(b), math.MaxUint32)) }

// Within reports whether e is at most o in both.
func (e Expressions) Within(o Expressions) bool { return e.Number <= o.Number && e.Size <= o.Size }

// IsZero reports whether there is no expression.
func (e Expressions) IsZero() bool { return e.Number == 0 }

// Overrun is a rule whose regular expressions are above a budget on a Gateway. It answers 500 there
// to all requests that it might match, as far as its matches are known without their expressions.
type Overrun struct {
	Gateway string // "namespace/name"
	Route   string // store.TargetKey
	Rule    int    // Rule.Index
	Budget  string // which one, for messages
}
