package devices

import (
	"fmt"
	"strconv"
	"strings"
)

// Share is a number of devices or processor cores in thousandths: 2000 means two devices, and 500
// means half a device.
type Share int

// Whole is the Share of one whole device or core.
const Whole Share = 1000

// maxShare bounds a Share. No machine has more devices.
const maxShare = maxDevices * Whole

// ParseShare reads a number of devices: 0, a fraction below 1 of at most three digits, or a whole
// number.
func ParseShare(s string) (Share, error) {
	whole, fraction, fractional := strings.Cut(s, ".")
	n, err := strconv.ParseUint(whole, 10, 16)
	if err != nil || fractional && fraction == "" {
		return 0, fmt.Errorf("%.40q is not a number of devices, for example 0.5, 1 or 2", s)
	}
	fraction = strings.TrimRight(fraction, "0")
	switch {
	case Share(n)*Whole > maxShare:
		return 0, fmt.Errorf("%d devices, at most %d are allowed", n, maxDevices)
	case fraction == "":
		return Share(n) * Whole, nil
	case n > 0:
		return 0, fmt.Errorf("%.40q devices: use a whole number, or a fraction of one device", s)
	case len(fraction) > 3:
		return 0, fmt.Errorf("%.40q devices: a fraction has at most three digits", s)
	}
	part, err := strconv.ParseUint(fraction+"000"[len(fraction):], 10, 16)
	if err != nil {
		return 0, fmt.Errorf("%.40q is not a number of devices, for example 0.5, 1 or 2", s)
	}
	return Share(part), nil
}

// String returns the text that ParseShare accepts.
func (s Share) String() string {
	if s%Whole == 0 {
		return strconv.Itoa(int(s / Whole))
	}
	return strings.TrimRight(fmt.Sprintf("%d.%03d", s/Whole, s%Whole), "0")
}

// valid reports whether ParseShare can return s.
func (s Share) valid() bool { return s >= 0 && s <= maxShare && (s < Whole || s%Whole == 0) }
