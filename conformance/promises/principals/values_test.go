package principals

type value string

const (
	negative          value = "negative"
	zero              value = "zero"
	maximum           value = "maximum"  // the largest value that validation or the type accepts
	overflow          value = "overflow" // one more than maximum, or a value that the type cannot hold
	anothersName      value = "another's name"
	anothersNamespace value = "another's namespace"
)

func values(c class) []value {
	switch c {
	case number, duration, quantity:
		return []value{negative, zero, maximum, overflow}
	case name, host, address:
		return []value{zero, maximum, overflow, anothersName}
	case namespace:
		return []value{zero, maximum, overflow, anothersNamespace}
	case choice:
		return []value{zero, overflow}
	case boolean:
		return []value{zero, maximum}
	}
	return []value{zero, maximum, overflow} // for a text, a list or a map
}
