package envoy

import (
	"errors"
	"fmt"
	"regexp/syntax"
	"slices"
	"strings"

	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"

	"github.com/penstock-project/penstock/translator/model"
)

// maxProgram is the bootstrap's re2.max_program_size.error_level, in instructions.
const maxProgram = 100_000

// CheckRegex returns nil if Envoy accepts an expression: RE2 syntax, which is also Go's, and a
// program of at most maxProgram instructions.
func CheckRegex(pattern string) error {
	_, err := ProgramSize(pattern)
	return err
}

// ProgramSize estimates the instructions of an expression's RE2 program. The result is 0.8 to 2
// times Envoy's number (TestRegex_ProgramSizeIsEnvoys).
func ProgramSize(pattern string) (int, error) {
	if pattern == "" {
		return 0, errors.New("the regular expression is empty")
	}
	re, err := parse(pattern)
	var wrong *syntax.Error
	switch {
	case errors.As(err, &wrong):
		return 0, fmt.Errorf("regular expression %s is not one of RE2: %s", short(pattern), wrong.Code)
	case err != nil:
		return 0, fmt.Errorf("regular expression %s: %w", short(pattern), err)
	}
	if size := programSize(re) + 4; size <= maxProgram {
		return int(size), nil
	}
	return 0,
		fmt.Errorf("regular expression %s is too large: its program has more than %d instructions", short(pattern),
			maxProgram)
}

// Beginning returns the plain text with which every match of an expression begins.
func Beginning(pattern string) string {
	re, err := parse(pattern)
	if err != nil {
		return ""
	}
	subs := []*syntax.Regexp{re}
	if re.Op == syntax.OpConcat {
		subs = re.Sub
	}
	for _, s := range subs {
		if s.Op == syntax.OpLiteral && s.Flags&syntax.FoldCase == 0 {
			return fromBytes(s.Rune)
		}
		if s.Op != syntax.OpBeginText && s.Op != syntax.OpBeginLine {
			break
		}
	}
	return ""
}

func parse(pattern string) (*syntax.Regexp, error) {
	return syntax.Parse(latin1(pattern), syntax.Perl)
}

func latin1(text string) string {
	bytes := make([]rune, len(text))
	for i := range len(text) {
		bytes[i] = rune(text[i])
	}
	return string(bytes)
}

func fromBytes(text []rune) string {
	var b strings.Builder
	for _, r := range text {
		b.WriteByte(byte(r))
	}
	return b.String()
}

func short(pattern string) string {
	const most = 100
	if len(pattern) > most {
		return fmt.Sprintf("%.*q...", most, pattern)
	}
	return fmt.Sprintf("%q", pattern)
}

// Nested repetitions are not expanded. The sum saturates above maxProgram.
func programSize(re *syntax.Regexp) (size int64) {
	for _, s := range re.Sub {
		size += programSize(s)
	}
	switch re.Op {
	case syntax.OpLiteral:
		size = int64(len(re.Rune))
	case syntax.OpCharClass:
		for i := 0; i+1 < len(re.Rune); i += 2 {
			if re.Rune[i] <= 0xFF {
				size++
			}
		}
		size = max(1, size)
	case syntax.OpAnyCharNotNL:
		size = 2
	case syntax.OpAlternate:
		size += int64(len(re.Sub)) - 1
	case syntax.OpStar, syntax.OpPlus, syntax.OpQuest:
		size++
	case syntax.OpCapture:
		size += 2
	case syntax.OpRepeat:
		if re.Max < 0 {
			size = size*int64(max(1, re.Min)) + 1
		} else {
			size = size*int64(re.Max) + int64(re.Max-re.Min)
		}
	case syntax.OpConcat:
	default:
		size = max(1, size)
	}
	return min(size, maxProgram+1)
}

// Expressions counts the regular expressions in all Envoy routes that encode r.
func Expressions(r *model.Route) (sum model.Expressions) {
	add := func(m *matcherv3.RegexMatcher) {
		if m != nil {
			sum = sum.Add(model.Expressions{Number: 1, Size: programOf(m)})
		}
	}
	for _, route := range (&builder{}).routes(&model.VirtualHost{Host: "*", Routes: []model.Route{*r}}) {
		add(route.Match.GetSafeRegex())
		for _, h := range route.Match.Headers {
			add(h.GetStringMatch().GetSafeRegex())
		}
		for _, q := range route.Match.QueryParameters {
			add(q.GetStringMatch().GetSafeRegex())
		}
	}
	return sum
}

func programOf(m *matcherv3.RegexMatcher) uint32 {
	size, err := ProgramSize(m.Regex)
	if err != nil {
		size = maxProgram // the rule is invalid, which is reported elsewhere
	}
	return uint32(size)
}

// Matchers counts the regular expressions of a match.
func Matchers(m model.Match) int {
	n := 0
	if m.PathKind == model.PathRegex {
		n++
	}
	for _, list := range [][]model.ValueMatch{m.Headers, m.Query} {
		for _, v := range list {
			if v.Regex {
				n++
			}
		}
	}
	return n
}

// WithoutExpressions returns a match without regular expressions that takes at least m's requests.
func WithoutExpressions(m model.Match) model.Match {
	if m.PathKind == model.PathRegex {
		m.PathKind, m.Path = model.PathBeginning, Beginning(m.Path)
	}
	present := func(list []model.ValueMatch) []model.ValueMatch {
		list = slices.Clone(list)
		for i := range list {
			if list[i].Regex {
				list[i] = model.ValueMatch{Name: list[i].Name, Present: true}
			}
		}
		return list
	}
	m.Headers, m.Query = present(m.Headers), present(m.Query)
	return m
}
