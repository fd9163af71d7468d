# SPDX-License-Identifier: GPL-2.0-only OR MIT
# shellcheck shell=bash
# Completion of turnstile-smi for bash.

_turnstile_smi() {
	local current=$2 previous=$3 commands options ids words
	options="-q --query -s --supported -c --creatable -u --utilisation -i --id -l --loop -n --count
		--sample --json --root -h --help"
	commands="sched top trace orphans doctor metrics"
	words=" ${COMP_WORDS[*]} "
	case $previous in
	-i | --id)
		ids=$(cd /sys/bus/mdev/devices 2>/dev/null && echo *)
		ids+=" $(cd /sys/bus/pci/drivers/turnstile 2>/dev/null && echo [0-9]*)"
		mapfile -t COMPREPLY < <(compgen -W "$ids" -- "$current")
		return
		;;
	-o | --output) mapfile -t COMPREPLY < <(compgen -f -- "$current") && return ;;
	--root) mapfile -t COMPREPLY < <(compgen -d -- "$current") && return ;;
	-l | --loop | -n | --count | --sample | --seconds) return ;;
	esac
	case $words in
	*" sched set "*) commands="policy= arr= frequency_hz= averaging_factor= timeslice_us= hold_us=
		ctxsw_timeout_ms= strict= weight= cap_percent= latency_us=" ;;
	*" sched "*) commands="show set log" ;;
	*" trace "*) commands="" options+=" --seconds -o --output" ;;
	*" top "* | *" orphans "* | *" doctor "* | *" metrics "*) commands="" ;;
	esac
	[[ $current == -* ]] && commands=$options
	mapfile -t COMPREPLY < <(compgen -W "$commands" -- "$current")
	[[ ${COMPREPLY[0]} == *= ]] && compopt -o nospace
}
complete -F _turnstile_smi turnstile-smi
