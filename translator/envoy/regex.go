package envoy

import (
	"errors"
	"fmt"
	"regexp/syntax"
)

// maxProgram is the largest compiled expression that Envoy takes: the bootstrap sets re2.max_program_size.error_level
// to 100,000 instructions. Ours is an estimate from above (sizes of UTF-8 ranges), with the same limit.
const maxProgram = 100_000

// CheckRegex reports whether Envoy accepts a regular expression: RE2's syntax, which is Go's, and a bounded program.
func CheckRegex(pattern string) error {
	if pattern == "" {
		return errors.New("an empty regular expression")
	}
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return fmt.Errorf("regular expression %q: %w", pattern, err)
	}
	prog, err := syntax.Compile(re.Simplify())
	if err != nil {
		return fmt.Errorf("regular expression %q: %w", pattern, err)
	}
	size := 0
	for _, inst := range prog.Inst {
		size += instructions(inst)
	}
	if size > maxProgram {
		return fmt.Errorf("regular expression %q is too large: about %d instructions, at most %d", pattern, size, maxProgram)
	}
	return nil
}

// instructions is what RE2, which matches bytes, makes of one instruction of Go, which matches runes.
func instructions(inst syntax.Inst) int {
	switch inst.Op {
	case syntax.InstRune, syntax.InstRune1:
		if last := len(inst.Rune) - 1; last >= 0 && inst.Rune[last] < 0x80 {
			return max(1, len(inst.Rune)/2)
		}
		return 6 * max(1, len(inst.Rune)/2) // a range across lengths of UTF-8 needs several sequences
	case syntax.InstRuneAny, syntax.InstRuneAnyNotNL:
		return 10
	}
	return 1
}
