package picker

// rewrite draws, by weight, the model that extproc writes into the body. It ends no pick.
func rewrite(k *pick) {
	if k.rules != nil {
		k.drawn = k.rules.target(k.asked)
	}
}

func rewritten(r *Record) string {
	if r.Served == "" {
		return ""
	}
	return "model " + r.Model + " becomes " + r.Served
}
