package devices

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// Device is an accelerator.
type Device struct {
	Index  int    // position in the order of the PCI bus
	UUID   string // such as GPU-5a1bf2c4-…
	Name   string // product name
	Memory int64  // MiB; 0: not known
	MIG    bool   // the device is divided into MIG instances, so it cannot be used as a whole
}

// Limits of the list of devices: their number, and the bytes of a field.
const (
	maxDevices = 256
	maxField   = 256
)

// Parse reads the output of a list command. Each line has an index, a UUID, a name, the memory in
// MiB, and optionally the MIG mode, separated by commas. This is the form of
//
//	nvidia-smi --query-gpu=index,uuid,name,memory.total,mig.mode.current --format=csv,noheader,nounits
//
// Devices are sorted by index.
func Parse(output string) ([]Device, error) {
	if strings.HasPrefix(strings.TrimSpace(output), "No devices were found") {
		return nil, nil
	}
	reader := csv.NewReader(strings.NewReader(output))
	reader.TrimLeadingSpace, reader.FieldsPerRecord, reader.LazyQuotes = true, -1, true
	var all []Device
	for {
		fields, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("list of devices: %w", err)
		}
		line, _ := reader.FieldPos(0)
		d, err := parseLine(fields)
		if err != nil {
			return nil, fmt.Errorf("list of devices, line %d: %w", line, err)
		}
		if slices.ContainsFunc(all, func(o Device) bool { return o.UUID == d.UUID || o.Index == d.Index }) {
			return nil, fmt.Errorf("list of devices, line %d: its index or UUID is in another line, too", line)
		}
		if all = append(all, d); len(all) > maxDevices {
			return nil, fmt.Errorf("list of devices: more than %d lines", maxDevices)
		}
	}
	slices.SortFunc(all, func(a, b Device) int { return a.Index - b.Index })
	return all, nil
}

func parseLine(fields []string) (Device, error) {
	for i, field := range fields {
		if fields[i] = strings.TrimSpace(field); len(field) > maxField {
			return Device{}, fmt.Errorf("a field has %d bytes, at most %d are allowed", len(field), maxField)
		}
	}
	if len(fields) < 3 {
		return Device{}, errors.New("it has not the form INDEX, UUID, NAME, MEMORY")
	}
	index, err := strconv.Atoi(fields[0])
	if err != nil || index < 0 || index >= 1<<16 {
		return Device{}, fmt.Errorf("the index %q is no number", fields[0])
	}
	// The driver prints [N/A] or [Unknown Error] for a missing UUID.
	if fields[1] == "" || strings.ContainsAny(fields[1], "[ ") {
		return Device{}, fmt.Errorf("the UUID %q is not one", fields[1])
	}
	d := Device{Index: index, UUID: fields[1], Name: fields[2]}
	if len(fields) > 3 {
		// The driver prints [N/A] for an unknown size.
		if mib, err := strconv.ParseInt(fields[3], 10, 64); err == nil && mib > 0 {
			d.Memory = mib
		}
	}
	d.MIG = len(fields) > 4 && fields[4] == "Enabled"
	return d, nil
}

// Numbered returns n made-up devices, with indexes from 0, for a machine that cannot list its
// devices.
func Numbered(n int) []Device {
	all := make([]Device, min(max(n, 0), maxDevices))
	for i := range all {
		all[i] = Device{Index: i, UUID: "device-" + strconv.Itoa(i), Name: "device"}
	}
	return all
}

// Visible returns the devices that remain with value, the value of an environment variable such as
// CUDA_VISIBLE_DEVICES. value is a list of indexes and of unique prefixes of UUIDs. As in CUDA, the
// list ends at the first entry that matches no device. busOrder means that indexes are in the order
// of the PCI bus. note is a warning for the user; "": none.
func Visible(all []Device, value string, busOrder bool) (visible []Device, note string) {
	for entry := range strings.SplitSeq(value, ",") {
		entry = strings.TrimSpace(entry)
		i, indexed := match(all, entry)
		if i < 0 {
			if entry != "" || len(visible) > 0 {
				note = fmt.Sprintf("the inherited list of devices ends at %q, which names no device", entry)
			}
			break
		}
		if !busOrder && indexed && !uniform(all) {
			note = "the inherited list of devices has indexes, and the devices differ: they are read in the order of " +
				"the PCI bus; set CUDA_DEVICE_ORDER=PCI_BUS_ID, or use UUIDs"
		}
		if !slices.Contains(visible, all[i]) {
			visible = append(visible, all[i])
		}
	}
	slices.SortFunc(visible, func(a, b Device) int { return a.Index - b.Index })
	return visible, note
}

// match returns the position of the device that an entry names; -1: the entry matches no device or
// several devices.
func match(all []Device, entry string) (position int, indexed bool) {
	if index, err := strconv.Atoi(entry); err == nil {
		return slices.IndexFunc(all, func(d Device) bool { return d.Index == index }), true
	}
	position = -1
	for i, d := range all {
		if entry == d.UUID {
			return i, false
		}
		if len(entry) > len("GPU-") && strings.HasPrefix(d.UUID, entry) {
			if position >= 0 {
				return -1, false
			}
			position = i
		}
	}
	return position, false
}

func uniform(all []Device) bool {
	return !slices.ContainsFunc(all, func(d Device) bool { return kind(d) != kind(all[0]) })
}

// kind returns equal texts for devices that can serve one model together.
func kind(d Device) string { return d.Name + "/" + strconv.FormatInt(d.Memory, 10) }
