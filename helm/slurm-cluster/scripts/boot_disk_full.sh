#!/bin/sh
# Fails when the disk that containers of this node live on is fuller than PERCENT: boot_disk_full.sh [PERCENT]
most=${1:-80}
used=$(df -P / | awk 'NR == 2 { sub("%", "", $5); print $5 }')
case $used in
    "" | *[!0-9]*)
        echo "df does not tell how full the disk is"
        exit 0
        ;;
esac
echo "$used% used"
if [ "$used" -gt "$most" ]; then
    echo "$used% used, more than $most%" >&3
    exit 1
fi
